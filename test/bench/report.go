package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Report is what was measured.
type Report struct {
	Date    string `json:"date"`
	Machine string `json:"machine"`
	Command string `json:"command"`
	// Scripted is what stoker adds to an engine that costs nothing, Real to llama-server.
	Scripted EngineReport `json:"scripted"`
	Real     EngineReport `json:"real"`
	// IdleMemory and PeakMemory are stoker's own resident bytes: before the first request, and at most while the scripted engine
	// was behind it.
	IdleMemory int64 `json:"idle_memory_bytes"`
	PeakMemory int64 `json:"peak_memory_bytes"`
	// PeerBroken counts answers that broke off on the way through the peer. One directly or through stoker ends the run.
	PeerBroken int `json:"peer_broken"`
}

// EngineReport are the figures with one engine.
type EngineReport struct {
	Engine  string     `json:"engine"`
	First1  *FirstByte `json:"first_byte_1_stream,omitempty"`
	First32 *FirstByte `json:"first_byte_32_streams,omitempty"`
	Relay1  *Relay     `json:"relay_1_stream,omitempty"`
	Relay8  *Relay     `json:"relay_8_streams,omitempty"`
}

// FirstByte compares times to the first byte, in nanoseconds. Added is the difference of the percentiles.
type FirstByte struct {
	N         int           `json:"n"`
	Direct50  time.Duration `json:"direct_p50_ns"`
	Direct99  time.Duration `json:"direct_p99_ns"`
	Through50 time.Duration `json:"through_p50_ns"`
	Through99 time.Duration `json:"through_p99_ns"`
	Added50   time.Duration `json:"added_p50_ns"`
	Added99   time.Duration `json:"added_p99_ns"`
	// What the peer adds: a bare reverse proxy, which is what one more process on the way costs here.
	PeerAdded50 time.Duration `json:"peer_added_p50_ns"`
	PeerAdded99 time.Duration `json:"peer_added_p99_ns"`
}

// Relay compares tokens per second. Ratio is the median of the ratios of the pairs.
type Relay struct {
	Rounds     int           `json:"rounds"`
	Direct     float64       `json:"direct_tokens_per_s"`
	Through    float64       `json:"through_tokens_per_s"`
	Ratio      float64       `json:"ratio"`
	PeerRatio  float64       `json:"peer_ratio"`
	CPUPer1000 time.Duration `json:"stoker_cpu_per_1000_tokens_ns"`
}

// The aims. A well-known swap proxy, measured the same way, adds 0.33 ms at the median and 4 to 10 ms at p99.
const (
	aim50    = 200 * time.Microsecond
	aim99    = time.Millisecond
	aimRatio = 0.98
	aimBytes = 30 << 20
)

// WriteText writes the report for a person.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n%s\n\n", r.Command, r.Date, r.Machine)
	fmt.Fprintf(&b, "The same engine process is asked directly, over its socket, through stoker, and through a peer, in turns. The peer is the\nstandard library's reverse proxy as a process of its own: what one more process on the way costs on this machine, whatever it does.\n\n")
	r.Scripted.write(&b, "scripted engine (it costs next to nothing, so this is stoker)")
	fmt.Fprintf(&b, "  stoker's memory: %.1f MiB before the first request, %.1f MiB at most (aim: at most 30: %s)\n\n", mib(r.IdleMemory), mib(r.PeakMemory),
		verdict(r.PeakMemory <= aimBytes))
	if r.Real.Engine != "" {
		r.Real.write(&b, "real engine")
	}
	if r.PeerBroken > 0 {
		fmt.Fprintf(&b, "  %d answers broke off on the way through the peer and are left out\n", r.PeerBroken)
	}
	fmt.Fprintf(&b, "\nFor comparison, measured the same way on such a machine: a well-known swap proxy adds 0.33 ms at the median and 4 to 10 ms at p99.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (e *EngineReport) write(b *strings.Builder, title string) {
	fmt.Fprintf(b, "%s: %s\n", title, e.Engine)
	e.First1.write(b, "1 stream")
	e.First32.write(b, "32 streams")
	e.Relay1.write(b, "1 stream as fast as the engine can")
	e.Relay8.write(b, "8 streams of 100 tokens/s")
}

func (f *FirstByte) write(b *strings.Builder, what string) {
	if f == nil {
		return
	}
	fmt.Fprintf(b, "  first byte, %s (%d each way): direct p50 %s p99 %s, through stoker p50 %s p99 %s\n", what, f.N, short(f.Direct50), short(f.Direct99),
		short(f.Through50), short(f.Through99))
	fmt.Fprintf(b, "    added: p50 %s (aim: at most 0.2 ms: %s), p99 %s (aim: at most 1 ms: %s)\n", short(f.Added50), verdict(f.Added50 <= aim50),
		short(f.Added99), verdict(f.Added99 <= aim99))
	fmt.Fprintf(b, "    the peer adds: p50 %s, p99 %s\n", short(f.PeerAdded50), short(f.PeerAdded99))
}

func (r *Relay) write(b *strings.Builder, what string) {
	if r == nil {
		return
	}
	fmt.Fprintf(b, "  tokens/s, %s (%d rounds): direct %.0f, through stoker %.0f, ratio %.3f (aim: at least 0.98: %s); the peer's ratio %.3f; stoker's processor time %s per 1,000 tokens\n",
		what, r.Rounds, r.Direct, r.Through, r.Ratio, verdict(r.Ratio >= aimRatio), r.PeerRatio, short(r.CPUPer1000))
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

func short(d time.Duration) string {
	return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond))
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
