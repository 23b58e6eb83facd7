package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
)

const (
	// lineMax is the longest line that is handed on whole. Engines print JSON of some kilobytes; more is noise.
	lineMax = 64 << 10
	// tailLineMax is the longest piece of a line that the tail keeps.
	tailLineMax = 4 << 10
	cutMark     = " ... (line cut)"
	tailDefault = 50
)

// tail keeps the last lines.
type tail struct {
	mu    sync.Mutex // guards lines and next
	lines []string   // a ring; next is the oldest once it is full
	next  int
	most  int
}

func newTail(most int) *tail {
	if most <= 0 {
		most = tailDefault
	}
	return &tail{most: most}
}

func (t *tail) add(line string) {
	if len(line) > tailLineMax {
		line = strings.Clone(line[:tailLineMax]) + cutMark
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) < t.most {
		t.lines = append(t.lines, line)
		return
	}
	t.lines[t.next] = line
	t.next = (t.next + 1) % t.most
}

// all returns the lines, oldest first.
func (t *tail) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(append(make([]string, 0, len(t.lines)), t.lines[t.next:]...), t.lines[:t.next]...)
}

// readLines calls each with every line of r until its end. A line over lineMax is handed on as its beginning, marked, and the
// rest is thrown away as it comes, so memory stays bounded.
func readLines(r io.Reader, each func(string)) {
	br := bufio.NewReaderSize(r, lineMax)
	for {
		b, err := br.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			each(string(b) + cutMark)
			err = skipLine(br)
		} else if len(b) > 0 {
			each(string(bytes.TrimRight(b, "\r\n")))
		}
		if err != nil {
			return
		}
	}
}

func skipLine(br *bufio.Reader) error {
	for {
		_, err := br.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// fileTail returns the last lines of a log file.
func fileTail(name string, most int) []string {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > lineMax {
		if _, err := f.Seek(-lineMax, io.SeekEnd); err != nil {
			return nil
		}
	}
	t := newTail(most)
	readLines(f, t.add)
	return t.all()
}
