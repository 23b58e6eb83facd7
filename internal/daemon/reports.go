package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/stoker-llm/stoker/internal/buildinfo"
	"github.com/stoker-llm/stoker/internal/choose"
	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/hw"
	"github.com/stoker-llm/stoker/internal/models"
)

// Explain makes the decision that serve would make about a model, and shows it. When nothing can serve the model, the report comes
// with the error.
func (h Host) Explain(ctx context.Context, c *config.Config, word string) (*choose.Choice, error) {
	picked, err := c.Select([]string{word})
	if err != nil {
		return nil, err
	}
	art, err := artifact(c, picked[0])
	if err != nil {
		return nil, err
	}
	memory, err := available()
	if err != nil {
		return nil, err
	}
	ranked := h.engines(c, slog.New(slog.DiscardHandler)).ranked(ctx, c, picked[0])
	return choose.Choose(ctx, ranked, want(picked[0], art), memory)
}

// DoctorReport is what there is on this machine to serve models with.
type DoctorReport struct {
	Build   buildinfo.Info       `json:"build"`
	Machine hw.Machine           `json:"machine"`
	Engines []engine.Fingerprint `json:"engines"`
	Config  string               `json:"config_file"`
	Folders map[string]string    `json:"folders"`
}

// Doctor looks for every engine.
func (h Host) Doctor(ctx context.Context, c *config.Config) (*DoctorReport, error) {
	machine, err := hw.Read()
	if err != nil {
		return nil, err
	}
	r := &DoctorReport{
		Build: buildinfo.Get(), Machine: machine, Config: c.File,
		Folders: map[string]string{"state": c.StateDir, "models": c.ModelDir(), "run": c.RunDir, "cache": c.CacheDir},
	}
	for _, d := range h.engines(c, slog.New(slog.DiscardHandler)).all() {
		r.Engines = append(r.Engines, d.Fingerprint(ctx))
	}
	return r, nil
}

// WriteText writes the report for a person.
func (r *DoctorReport) WriteText(w io.Writer) error {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s\n", r.Build)
	fmt.Fprintf(&b, "machine   %s/%s, %s, %d logical processors, %s\n", m.OS, m.Arch, orUnknown(m.CPU.Model), m.CPU.Logical,
		orUnknown(strings.Join(m.CPU.SIMD, " ")))
	fmt.Fprintf(&b, "memory    %s in all, %s available%s\n", mib(m.Memory.Total), mib(m.Memory.Available), limit(m.Memory))
	fmt.Fprintf(&b, "config    %s\n", orNone(r.Config))
	fmt.Fprintf(&b, "models in %s\n", r.Folders["models"])
	for _, f := range r.Engines {
		writeEngine(&b, f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeEngine(b *strings.Builder, f engine.Fingerprint) {
	if !f.Found {
		fmt.Fprintf(b, "engine    %s: missing: %s\n            to get it: %s\n", f.Engine, f.Missing, f.Remedy)
		return
	}
	fmt.Fprintf(b, "engine    %s: %s, build %s\n            %s (found by %s)\n", f.Engine, f.Version, orUnknown(f.Build), f.Path, f.Origin)
	for _, d := range f.Devices {
		fmt.Fprintf(b, "            device %s %s, %s\n", d.Name, d.Description, mib(d.TotalBytes))
	}
	for _, n := range f.Notes {
		fmt.Fprintf(b, "            %s\n", n)
	}
	if len(f.Devices) == 0 {
		fmt.Fprintf(b, "            no GPU: it computes on the processor\n")
	}
}

func limit(m hw.Memory) string {
	if m.Limit == 0 {
		return ""
	}
	return fmt.Sprintf(", limited to %s by %s", mib(m.Limit), m.LimitOrigin)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// ModelsReport lists what can be served by name.
type ModelsReport struct {
	Models []ListedModel `json:"models"`
	// Folder is stoker's own model folder.
	Folder string `json:"folder"`
}

// ListedModel is one model that can be served. Problem says why it cannot.
type ListedModel struct {
	models.Artifact
	// From is "config" or "folder".
	From    string `json:"from"`
	Bytes   int64  `json:"bytes,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Models lists the models of the config and of the model folder.
func (h Host) Models(ctx context.Context, c *config.Config) (*ModelsReport, error) {
	r := &ModelsReport{Folder: c.ModelDir(), Models: []ListedModel{}}
	for _, m := range c.Models {
		a, err := artifact(c, m)
		if err != nil {
			a.Name, a.Path = m.Name, m.Path
		}
		r.add("config", a, err)
	}
	all, err := (&models.Store{Dirs: []string{c.ModelDir()}}).List(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		r.add("folder", a, nil)
	}
	return r, nil
}

func (r *ModelsReport) add(from string, a models.Artifact, err error) {
	l := ListedModel{Artifact: a, From: from}
	if err == nil {
		var info *models.Info
		if info, err = models.Inspect(a.Path); err == nil {
			l.Bytes = info.FileBytes
		}
	}
	if err != nil {
		l.Problem = err.Error()
	}
	r.Models = append(r.Models, l)
}

// WriteText writes the list for a person.
func (r *ModelsReport) WriteText(w io.Writer) error {
	if len(r.Models) == 0 {
		_, err := fmt.Fprintf(w, "no models: put GGUF files into %s, list models in the config file, or give stoker serve a path\n", r.Folder)
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tFORMAT\tSIZE\tFROM\tPATH")
	for _, m := range r.Models {
		size := mib(m.Bytes)
		if m.Problem != "" {
			size = "broken: " + m.Problem
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", m.Name, m.Format, size, m.From, m.Path)
	}
	return tw.Flush()
}
