package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stoker-llm/stoker/internal/models/safetensors"
)

// folderTemplate reads the chat template of a folder: chat_template.jinja, else the key of that name in tokenizer_config.json, which
// may be a text or a list of named ones. Without any it is empty.
func folderTemplate(dir string) (string, error) {
	text, err := safetensors.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return string(text), err
	}
	text, err = safetensors.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var c struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return "", fmt.Errorf("tokenizer_config.json: %w", err)
	}
	if len(c.Template) == 0 || string(c.Template) == "null" {
		return "", nil
	}
	var one string
	if json.Unmarshal(c.Template, &one) == nil {
		return one, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(c.Template, &named); err != nil {
		return "", errors.New("tokenizer_config.json: chat_template is neither a text nor a list of named ones")
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", nil
}
