// Package bench measures servers that answer with event streams: it sends requests, notes when their bytes come, and sums the
// times up. It judges nothing; who prints a figure says what it was compared with.
//
//	s := bench.Stream(ctx, client, url, body) // one answer
//	d := bench.Summarize(times)               // of many
//
// Functions may be called concurrently. A Stream reads as fast as it can and keeps nothing of the text, so that the measuring
// client costs little of the machine it shares with what it measures.
package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"
)

// Sample is one answer as its client saw it.
type Sample struct {
	// First is the time from sending the request to the first text of the answer, Total to its end. Servers differ in what they send
	// before the first text.
	First, Total time.Duration
	// Events counts the events of the stream, Bytes its bytes.
	Events int
	Bytes  int64
}

// Stream sends body to url and reads the answer to its end. An answer that is not 200, or has no events, is an error.
func Stream(ctx context.Context, c *http.Client, url string, body []byte) (Sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Sample{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return Sample{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return Sample{}, fmt.Errorf("%s: %s %w", resp.Status, text, err)
	}
	return read(resp.Body, start)
}

// textMark is what stands before the text of a delta.
var textMark = []byte(`"content":"`)

// hasText reports whether a piece of a chat stream holds text that is not empty.
func hasText(b []byte) bool {
	for {
		i := bytes.Index(b, textMark)
		if i < 0 {
			return false
		}
		b = b[i+len(textMark):]
		if len(b) > 0 && b[0] != '"' {
			return true
		}
	}
}

// eventEnd is what ends an event.
var eventEnd = []byte("\n\n")

func read(r io.Reader, start time.Time) (s Sample, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if s.First == 0 && hasText(buf[:n]) {
				s.First = time.Since(start)
			}
			s.Bytes += int64(n)
			// An end that is cut between two reads is missed: a handful in a hundred thousand.
			s.Events += bytes.Count(buf[:n], eventEnd)
		}
		if err == io.EOF && s.Events > 0 {
			s.Total = time.Since(start)
			if s.First == 0 {
				s.First = s.Total
			}
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("the stream broke off after %d events: %w", s.Events, err)
		}
	}
}

// Distribution sums up times.
type Distribution struct {
	N                       int           `json:"n"`
	Min, P50, P90, P99, Max time.Duration `json:"-"`
}

// Summarize sorts times and picks percentiles by nearest rank: the smallest time that at least that share does not exceed.
func Summarize(times []time.Duration) Distribution {
	if len(times) == 0 {
		return Distribution{}
	}
	t := slices.Sorted(slices.Values(times))
	return Distribution{N: len(t), Min: t[0], P50: Percentile(t, 50), P90: Percentile(t, 90), P99: Percentile(t, 99), Max: t[len(t)-1]}
}

// Percentile returns the p-th percentile of sorted times, by nearest rank.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median returns the median of the values, the mean of the two in the middle if their number is even; 0 for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}
