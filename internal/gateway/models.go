package gateway

import (
	"strings"

	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/openai"
)

// listModels lists what can be served now: served names and exact aliases. As long as nothing can, it says why instead of
// showing an empty list, which pickers take for a broken connection; a model that is still loading is not listed, since
// clients take the list for readiness.
func (g *Gateway) listModels(x *exchange) error {
	all := g.opts.Fleet.Status()
	var cards []openai.ModelCard
	for i := range all {
		if all[i].State == fleet.Serving {
			cards = append(cards, g.cards(&all[i])...)
		}
	}
	if len(cards) == 0 {
		return nothingServed(all)
	}
	body, err := openai.ModelList(cards)
	if err != nil {
		return err
	}
	return x.send(200, "application/json", body)
}

// getModel shows one model, by any name that reaches it. The card's id is the name that was asked for, as clients compare.
func (g *Gateway) getModel(x *exchange) error {
	served, err := g.opts.Fleet.Resolve(x.rest)
	if err != nil {
		return err
	}
	for _, st := range g.opts.Fleet.Status() {
		if st.Name != served {
			continue
		}
		if st.State != fleet.Serving {
			return nothingServed([]fleet.Status{st})
		}
		body, err := g.card(&st, x.rest).MarshalJSON()
		if err != nil {
			return err
		}
		return x.send(200, "application/json", body)
	}
	return infer.Errorf(infer.ErrInternal, "model", "model %q has no status", served)
}

// nothingServed is the error for models none of which serves: loading if one may soon.
func nothingServed(all []fleet.Status) error {
	for _, st := range all {
		switch st.State {
		case fleet.Waiting, fleet.Loading, fleet.Restarting:
			return &infer.Error{
				Kind: infer.ErrLoading, RetryAfter: loadingHint,
				Message: "model " + st.Name + " is not ready yet (" + string(st.State) + "); GET /health shows how far it is",
			}
		}
	}
	return infer.Errorf(infer.ErrUnavailable, "", "no model is served; GET /health says why")
}

func (g *Gateway) cards(st *fleet.Status) []openai.ModelCard {
	cards := []openai.ModelCard{g.card(st, st.Name)}
	for _, a := range st.Aliases {
		if !strings.Contains(a, "*") {
			cards = append(cards, g.card(st, a))
		}
	}
	return cards
}

func (g *Gateway) card(st *fleet.Status, id string) openai.ModelCard {
	c := openai.ModelCard{ID: id, Created: g.opts.Started.Unix(), OwnedBy: "stoker", DisplayName: st.Name}
	if f := st.Facts; f != nil {
		c.Window = f.Window
		for _, ability := range []struct {
			has  bool
			word string
		}{{f.Caps.Chat, "chat"}, {f.Caps.Completion, "completion"}, {f.Caps.Tools, "tools"}, {f.Caps.Images, "vision"}} {
			if ability.has {
				c.Capabilities = append(c.Capabilities, ability.word)
			}
		}
	}
	return c
}
