package gate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report for a person: what was kept, a line for each prompt, and why it failed. JSON is the form for programs.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Model, r.Summary())
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(r.Results) > 0 {
		fmt.Fprint(table, "  prompt\tverdict\tfirst flip\tgap\tlogits\tlayers\tworst\n")
	}
	for i := range r.Results {
		fmt.Fprintf(table, "  %s\n", strings.Join(r.Results[i].columns(r.Inside), "\t"))
	}
	table.Flush() //nolint:errcheck // a strings.Builder takes everything
	for _, why := range r.Why {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Summary is the report in one line, without the model's name.
func (r *Report) Summary() string {
	s := "FAILED"
	if r.Passed {
		s = "passed"
	}
	s += fmt.Sprintf(": %d of %d answers kept", r.Kept, r.Of)
	if r.Ties > 0 {
		s += fmt.Sprintf(", %d more but for ties", r.Ties)
	}
	if r.Inside && len(r.Results) > 0 {
		logits, taps := 0.0, 0.0
		for _, x := range r.Results {
			logits, taps = max(logits, x.Logits), max(taps, x.Taps)
		}
		s += fmt.Sprintf("; logits within %.2g and layers within %.2g relative RMS", logits, taps)
	}
	return s
}

// columns are a result's line in the table; a dash stands for what does not apply.
func (x *Result) columns(inside bool) []string {
	out := []string{x.Prompt, string(x.Verdict), "-", "-", "-", "-", "-"}
	if x.At >= 0 {
		out[2], out[3] = fmt.Sprintf("token %d", x.At), fmt.Sprintf("%.2g", x.Gap)
	}
	if inside && x.Logits > 0 {
		out[4] = fmt.Sprintf("%.2g", x.Logits)
	}
	if inside && x.Taps > 0 {
		out[5], out[6] = fmt.Sprintf("%.2g", x.Taps), x.Layer
	}
	return out
}
