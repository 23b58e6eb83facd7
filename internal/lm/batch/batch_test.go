package batch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	tests := []struct {
		name           string
		left           []int
		maxRows, chunk int
		want           []Part
	}{
		{"nothing to do", nil, 8, 8, nil},
		{"all write", []int{0, 0}, 8, 8, []Part{{0, 1}, {1, 1}}},
		{"one reads whole", []int{5}, 8, 8, []Part{{0, 5}}},
		{"a long prompt in pieces", []int{500}, 256, 64, []Part{{0, 64}}},
		{"writers first, then the oldest reader", []int{100, 0, 50, 0}, 256, 64, []Part{{1, 1}, {3, 1}, {0, 64}}},
		{"readers one at a time", []int{3, 50}, 256, 64, []Part{{0, 3}}},
		{"no room behind the writers", []int{0, 0, 9}, 2, 8, []Part{{0, 1}, {1, 1}}},
		{"little room behind the writers", []int{0, 0, 9}, 4, 8, []Part{{0, 1}, {1, 1}, {2, 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Plan(tt.left, tt.maxRows, tt.chunk)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPace(t *testing.T) {
	var p Pace
	if got := p.Chunk(256); got != 32 {
		t.Errorf("before anything is known: %d", got)
	}
	p.Done(1, time.Second)
	if got := p.Chunk(256); got != 32 {
		t.Errorf("a single row says nothing: %d", got)
	}
	p.Done(100, 100*time.Millisecond) // 1 ms a row
	if got := p.Chunk(256); got != 200 {
		t.Errorf("1 ms a row: %d, want 200", got)
	}
	if got := p.Chunk(64); got != 64 {
		t.Errorf("limited: %d", got)
	}
	for range 50 {
		p.Done(100, 10*time.Second) // 100 ms a row
	}
	if got := p.Chunk(256); got != 16 {
		t.Errorf("a slow machine: %d, want the least", got)
	}
	for range 50 {
		p.Done(100, time.Millisecond)
	}
	if got := p.Chunk(256); got != 256 {
		t.Errorf("a fast machine: %d, want the most", got)
	}
}
