package llamacpp

import (
	"bufio"
	"context"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/test/kit"
)

// BenchmarkFirstToken shows what the driver adds between the scripted engine's first text and its reader.
func BenchmarkFirstToken(b *testing.B) {
	in := startScripted(b, "tokens: 1")
	r := chat("hello", 1)
	b.Run("direct", func(b *testing.B) {
		body, err := chatBody(r, chatParts{messages: r.Messages}, 1)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			resp, err := in.conn.do(b.Context(), chatPath, body)
			if err != nil {
				b.Fatal(err)
			}
			for lines := bufio.NewReader(resp.Body); ; {
				line, err := lines.ReadString('\n')
				if err != nil {
					b.Fatal(err)
				}
				if strings.Contains(line, `"content":"`) {
					break
				}
			}
			if err := resp.Body.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("driver", func(b *testing.B) {
		for b.Loop() {
			st, err := in.Generate(b.Context(), r)
			if err != nil {
				b.Fatal(err)
			}
			for {
				ev, err := st.Next(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if _, ok := ev.(infer.Text); ok {
					break
				}
			}
			if err := st.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStart is the time from nothing to a generated token, with the real engine and the real chat model.
func BenchmarkStart(b *testing.B) {
	real := kit.NeedReal(b)
	d := realDriver(b, real)
	s := realSpec(b, real.Chat, 2048)
	for b.Loop() {
		in, err := d.Start(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := in.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
