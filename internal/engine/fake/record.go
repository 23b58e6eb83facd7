package fake

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// Outcome is what became of a request for an answer.
type Outcome string

// The outcomes. The first three are of requests that are not over.
const (
	Received  Outcome = "received"  // its body was read
	Waiting   Outcome = "waiting"   // for a slot, or for the model
	Active    Outcome = "active"    // it holds a slot
	Refused   Outcome = "refused"   // answered with an error before it had a slot
	Finished  Outcome = "finished"  // answered in full
	Failed    Outcome = "failed"    // ended by a fault of the script
	Cancelled Outcome = "cancelled" // its client was gone
)

// Request is one request for an answer, as GET /fake/requests lists them.
type Request struct {
	// ID numbers the requests, from 1.
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body,omitempty"`
	// Raw is the body if it was no JSON.
	Raw string `json:"raw,omitempty"`
	// At is when it came, Ended when it was over: for a cancelled one, when its client was seen to be gone.
	At      time.Time `json:"at"`
	Ended   time.Time `json:"ended,omitzero"`
	Outcome Outcome   `json:"outcome"`
	// Tokens counts the tokens that were produced for it so far, PromptTokens those that were read.
	Tokens       int `json:"tokens"`
	PromptTokens int `json:"prompt_tokens"`
}

// State is what GET /fake/state answers.
type State struct {
	// Active counts the answers that hold a slot now, Waiting those that wait for one.
	Active  int `json:"active"`
	Waiting int `json:"waiting"`
	// Received counts all requests for answers. Finished, Failed, Cancelled and Refused count those that ended well, by a fault,
	// because the client was gone, and with an error before they had a slot.
	Received  int `json:"received"`
	Finished  int `json:"finished"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	Refused   int `json:"refused"`
	// Tokens counts the tokens produced so far, PromptTokens those read.
	Tokens       int `json:"tokens"`
	PromptTokens int `json:"prompt_tokens"`
	// LastCancel is when a client was last seen to be gone.
	LastCancel time.Time `json:"last_cancel,omitzero"`
}

// work counts tokens while an answer is made, without a lock.
type work struct{ tokens, prompt atomic.Int64 }

// record is a request that is being followed.
type record struct {
	Request // guarded by Server.mu
	work
}

// recordsMax is how many requests are kept; older ones are dropped.
const recordsMax = 1000

// note begins to follow a request.
func (s *Server) note(r *http.Request, body []byte) *record {
	rec := &record{Request: Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), At: time.Now(), Outcome: Received}}
	if json.Valid(body) {
		rec.Body = body
	} else {
		rec.Raw = string(body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Received++
	rec.ID = s.state.Received
	s.records = append(s.records, rec)
	if len(s.records) > recordsMax {
		s.records = slices.Delete(s.records, 0, 1)
	}
	return rec
}

// mark says how far a request is.
func (s *Server) mark(rec *record, o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.state.of(rec.Outcome); n != nil && rec.Ended.IsZero() && rec.Outcome != Received {
		*n--
	}
	if n := s.state.of(o); n != nil {
		*n++
	}
	rec.Outcome = o
	switch o {
	case Cancelled:
		s.state.LastCancel = time.Now()
		rec.Ended = s.state.LastCancel
	case Finished, Failed, Refused:
		rec.Ended = time.Now()
	}
}

// of is the counter of an outcome.
func (st *State) of(o Outcome) *int {
	switch o {
	case Waiting:
		return &st.Waiting
	case Active:
		return &st.Active
	case Refused:
		return &st.Refused
	case Finished:
		return &st.Finished
	case Failed:
		return &st.Failed
	case Cancelled:
		return &st.Cancelled
	}
	return nil
}

// State says what runs now and what became of the rest.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state
	st.Tokens, st.PromptTokens = int(s.total.tokens.Load()), int(s.total.prompt.Load())
	return st
}

// Requests lists the last requests for answers, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Request, len(s.records))
	for i, rec := range s.records {
		list[i] = rec.Request
		list[i].Tokens, list[i].PromptTokens = int(rec.tokens.Load()), int(rec.prompt.Load())
	}
	return list
}
