package gate

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the report for a person.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	verdict := "FAILED"
	if r.Passed {
		verdict = "passed"
	}
	fmt.Fprintf(&b, "%s: %s: %d of %d answers kept", r.Model, verdict, r.Kept, r.Of)
	if r.Ties > 0 {
		fmt.Fprintf(&b, ", %d more but for ties", r.Ties)
	}
	logits, taps := 0.0, 0.0
	for _, x := range r.Results {
		logits, taps = max(logits, x.Logits), max(taps, x.Taps)
	}
	if r.Inside {
		fmt.Fprintf(&b, "; logits within %.2g, layers within %.2g relative RMS", logits, taps)
	}
	b.WriteByte('\n')
	for _, x := range r.Results {
		if x.Verdict != Same {
			fmt.Fprintf(&b, "  %-24s %s: %s\n", x.Prompt, x.Verdict, x.Detail)
		}
	}
	for _, why := range r.Why {
		if !strings.HasPrefix(why, "prompt ") {
			fmt.Fprintf(&b, "  %s\n", why)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
