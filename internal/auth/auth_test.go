package auth_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/auth"
	"github.com/stoker-llm/stoker/internal/infer"
)

const key = "sk-secret-1"

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		keys   auth.Keys
		scope  auth.Scope
		header http.Header
		want   infer.ErrorKind
	}{
		{"no key configured, none sent", auth.Keys{}, auth.Use, nil, ""},
		{"no key configured, any sent", auth.NewKeys(""), auth.Use, http.Header{"Authorization": {"Bearer x"}}, ""},
		{"open route without key", auth.NewKeys(key), auth.Open, nil, ""},
		{"none sent", auth.NewKeys(key), auth.Use, nil, infer.ErrUnauthorized},
		{"bearer", auth.NewKeys(key), auth.Use, http.Header{"Authorization": {"Bearer " + key}}, ""},
		{"bearer in lower case, padded", auth.NewKeys(key), auth.Use, http.Header{"Authorization": {"bearer   " + key + " "}}, ""},
		{"x-api-key", auth.NewKeys(key), auth.Use, http.Header{"X-Api-Key": {key}}, ""},
		{"api-key", auth.NewKeys(key), auth.Use, http.Header{"Api-Key": {key}}, ""},
		{"basic", auth.NewKeys(key), auth.Use, http.Header{"Authorization": {"Basic " + key}}, infer.ErrUnauthorized},
		{"bare key", auth.NewKeys(key), auth.Use, http.Header{"Authorization": {key}}, infer.ErrUnauthorized},
		{"prefix", auth.NewKeys(key), auth.Use, http.Header{"X-Api-Key": {key[:5]}}, infer.ErrUnauthorized},
		{"longer", auth.NewKeys(key), auth.Use, http.Header{"X-Api-Key": {key + "1"}}, infer.ErrUnauthorized},
		{"empty", auth.NewKeys(key), auth.Use, http.Header{"X-Api-Key": {""}}, infer.ErrUnauthorized},
		{
			"placeholder beside the good one", auth.NewKeys(key), auth.Use,
			http.Header{"Authorization": {"Bearer none"}, "X-Api-Key": {key}},
			"",
		},
		{"second key", auth.NewKeys("other", key), auth.Use, http.Header{"X-Api-Key": {key}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.keys.Check(c.scope, c.header)
			if got := infer.KindOf(err); got != c.want {
				t.Fatalf("got %q (%v), want %q", got, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), key[:5]) {
				t.Errorf("the error repeats the key: %v", err)
			}
		})
	}
}

func TestKeysCannotPrintAKey(t *testing.T) {
	if s := fmt.Sprintf("%v %+v %#v", auth.NewKeys(key), auth.NewKeys(key), auth.NewKeys(key)); strings.Contains(s, "secret") {
		t.Errorf("printed: %s", s)
	}
}

func TestMissingAndWrongKeyAreToldApart(t *testing.T) {
	k := auth.NewKeys(key)
	missing := k.Check(auth.Use, nil).Error()
	wrong := k.Check(auth.Use, http.Header{"X-Api-Key": {"nope"}}).Error()
	if missing == wrong {
		t.Errorf("both say %q", missing)
	}
}
