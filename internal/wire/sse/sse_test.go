package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// seen is an item that outlives the next call.
type seen struct {
	Kind       Kind
	Name, Data string
}

func readAll(r io.Reader, l Limits) ([]seen, error) {
	rd := NewReader(r, l)
	var all []seen
	for {
		it, err := rd.Next()
		if err != nil {
			if _, again := rd.Next(); !errors.Is(again, err) {
				return all, errors.New("the second error differs from the first")
			}
			return all, err
		}
		all = append(all, seen{it.Kind, string(it.Name), string(it.Data)})
	}
}

// pieces gives its strings one by one, as a network would.
type pieces struct{ list []string }

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.list) > 0 && p.list[0] == "" {
		p.list = p.list[1:]
	}
	if len(p.list) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.list[0])
	p.list[0] = p.list[0][n:]
	return n, nil
}

func TestNext(t *testing.T) {
	event := func(data string) seen { return seen{Event, "", data} }
	tests := []struct {
		name string
		in   string
		want []seen
		err  error
	}{
		{"empty stream", "", nil, io.EOF},
		{"one event", "data: a\n\n", []seen{event("a")}, io.EOF},
		{"no space after the colon", "data:a\n\n", []seen{event("a")}, io.EOF},
		{"only one space is removed", "data:  a\n\n", []seen{event(" a")}, io.EOF},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []seen{event("a"), event("b")}, io.EOF},
		{"CR", "data: a\r\rdata: b\r\r", []seen{event("a"), event("b")}, io.EOF},
		{"mixed ends", "data: a\r\ndata: b\rdata: c\n\r\n", []seen{event("a\nb\nc")}, io.EOF},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []seen{event("a")}, io.EOF},
		{"byte order mark only once", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []seen{event("a")}, io.EOF},
		{"name", "event: ping\ndata: {}\n\n", []seen{{Event, "ping", "{}"}}, io.EOF},
		{"name does not stay", "event: x\ndata: 1\n\ndata: 2\n\n", []seen{{Event, "x", "1"}, event("2")}, io.EOF},
		{"name without data is nothing", "event: x\n\ndata: 2\n\n", []seen{event("2")}, io.EOF},
		{"empty data is an event", "data:\n\n", []seen{event("")}, io.EOF},
		{"field without colon", "data\n\n", []seen{event("")}, io.EOF},
		{"several data lines", "data: a\ndata:\ndata: b\n\n", []seen{event("a\n\nb")}, io.EOF},
		{"unknown fields", "id: 7\nretry: 9\nfoo: x\ndata: a\n\n", []seen{event("a")}, io.EOF},
		{"many blank lines", "\n\n\ndata: a\n\n\n\n", []seen{event("a")}, io.EOF},
		{"comment", ": keepalive 3/9\n\n", []seen{{Comment, "", "keepalive 3/9"}}, io.EOF},
		{"bare comment", ":\n\n", []seen{{Comment, "", ""}}, io.EOF},
		{
			"comment inside an event", "data: a\n: c\ndata: b\n\n",
			[]seen{{Comment, "", "c"}, event("a\nb")},
			io.EOF,
		},
		{"cut before the blank line", "data: a\n\ndata: b\n", []seen{event("a")}, ErrTruncated},
		{"cut inside a line", "data: a\n\nda", []seen{event("a")}, ErrTruncated},
		{"cut inside a comment", ": keep", nil, ErrTruncated},
		{"cut after a name", "event: x\n", nil, ErrTruncated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readAll(strings.NewReader(tt.in), Limits{})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
			if !errors.Is(err, tt.err) {
				t.Errorf("error = %v, want %v", err, tt.err)
			}
			checkCuts(t, tt.in, Limits{})
		})
	}
}

// checkCuts asserts that no way of cutting in, into two pieces or into single bytes, changes what is read.
func checkCuts(t *testing.T, in string, l Limits) {
	t.Helper()
	want, wantErr := readAll(strings.NewReader(in), l)
	for cut := range len(in) + 1 {
		got, err := readAll(&pieces{[]string{in[:cut], in[cut:]}}, l)
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, wantErr) {
			t.Fatalf("cut at byte %d: error %v, want %v; items (-want +got):\n%s", cut, err, wantErr, diff)
		}
	}
	got, err := readAll(iotest.OneByteReader(strings.NewReader(in)), l)
	if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, wantErr) {
		t.Fatalf("byte by byte: error %v, want %v; items (-want +got):\n%s", err, wantErr, diff)
	}
}

func TestEveryCutOfARealisticStream(t *testing.T) {
	const stream = "\xef\xbb\xbf: keepalive 1/2\r\n\r\nevent: m\r\ndata: {\"t\":\"h\u00e9\u20ac\U0001f600\"}\r\n\r\n" +
		"data: two\ndata: lines\n\n:\n\ndata: \r\rdata: [DONE]\n\n"
	checkCuts(t, stream, Limits{})
}

func TestLimits(t *testing.T) {
	tests := []struct {
		name string
		in   string
		l    Limits
		err  error
	}{
		{"line at the limit", "data: 1234\n\n", Limits{Line: 10}, io.EOF},
		{"line over the limit", "data: 12345\n\n", Limits{Line: 10}, ErrLineTooLong},
		{"endless line", strings.Repeat("x", 100), Limits{Line: 10}, ErrLineTooLong},
		{"long comment", ": 123456789\n", Limits{Line: 10}, ErrLineTooLong},
		{"event at the limit", "data: 12\ndata: 34\n\n", Limits{Event: 5}, io.EOF},
		{"event over the limit", "data: 12\ndata: 345\n\n", Limits{Event: 5}, ErrEventTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := readAll(strings.NewReader(tt.in), tt.l); !errors.Is(err, tt.err) {
				t.Errorf("error = %v, want %v", err, tt.err)
			}
			checkCuts(t, tt.in, tt.l)
		})
	}
}

// TestCaseC30LongLine: one line of 4 MiB passes; a line scanner with the usual 64 KiB would end the stream.
func TestCaseC30LongLine(t *testing.T) {
	long := strings.Repeat("x", 4<<20)
	got, err := readAll(strings.NewReader("data: "+long+"\n\ndata: after\n\n"), Limits{})
	if !errors.Is(err, io.EOF) || len(got) != 2 {
		t.Fatalf("got %d items and %v, want 2 and EOF", len(got), err)
	}
	if got[0].Data != long || got[1].Data != "after" {
		t.Error("the long event or the one behind it changed")
	}
}

// TestCRDoesNotWait: a CR ends an event at once, although an LF may still follow.
func TestCRDoesNotWait(t *testing.T) {
	pr, pw := io.Pipe()
	defer pw.Close()
	go func() {
		if _, err := pw.Write([]byte("data: a\r\r")); err != nil {
			t.Error(err)
		}
	}()
	it, err := NewReader(pr, Limits{}).Next()
	if err != nil || string(it.Data) != "a" {
		t.Errorf("got %q, %v", it.Data, err)
	}
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("connection reset")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), Limits{})
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("got %d items and %v, want 1 and the reader's error", len(got), err)
	}
	if _, err := readAll(idle{}, Limits{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v, want io.ErrNoProgress", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestAppend(t *testing.T) {
	got := string(AppendComment(AppendEvent(AppendData(nil, []byte("a\r\nb\rc\n")), "ping", []byte("{}")), "keepalive"))
	want := "data: a\ndata: b\ndata: c\ndata: \n\nevent: ping\ndata: {}\n\n: keepalive\n\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadAllocations(t *testing.T) {
	stream := bytes.Repeat([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n"), 2000)
	allocs := testing.AllocsPerRun(5, func() {
		r := NewReader(bytes.NewReader(stream), Limits{})
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	})
	if allocs > 10 {
		t.Errorf("%v allocations for 2000 events, want the buffers only", allocs)
	}
}

func FuzzReader(f *testing.F) {
	f.Add("data: a\r\n\r\n", 3)
	f.Add("event: x\rdata: \xe2\x82\xac\r\r: c\n", 20)
	f.Add("\xef\xbb\xbfdata:\n\n\n", 1)
	f.Fuzz(func(t *testing.T, in string, cut int) {
		l := Limits{Line: 64, Event: 100}
		want, wantErr := readAll(strings.NewReader(in), l)
		cut = max(0, min(cut, len(in)))
		for name, r := range map[string]io.Reader{
			"two pieces": &pieces{[]string{in[:cut], in[cut:]}},
			"bytes":      iotest.OneByteReader(strings.NewReader(in)),
		} {
			got, err := readAll(r, l)
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, wantErr) {
				t.Errorf("%s: error %v, want %v; items (-want +got):\n%s", name, err, wantErr, diff)
			}
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("ping", "a\nb", "note")
	f.Add("", "", "")
	f.Add("x", " \xff\r\n", ":\r")
	lf := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	f.Fuzz(func(t *testing.T, name, data, comment string) {
		name = strings.NewReplacer("\n", "", "\r", "").Replace(name)
		stream := AppendComment(AppendData(AppendEvent(nil, name, []byte(data)), []byte(data)), comment)
		want := []seen{{Event, name, lf.Replace(data)}, {Event, "", lf.Replace(data)}}
		for line := range strings.SplitSeq(lf.Replace(comment), "\n") {
			want = append(want, seen{Comment, "", line})
		}
		got, err := readAll(bytes.NewReader(stream), Limits{})
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
			t.Errorf("error %v; items (-want +got):\n%s", err, diff)
		}
	})
}
