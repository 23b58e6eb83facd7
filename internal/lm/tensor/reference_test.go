package tensor

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"io"
	"math"
	"os"
	"testing"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// blocks is how many blocks of each format make_reference.py looks at.
const blocks = 512

// reference is what testdata/make_reference.py wrote: checksums of each block.
type reference struct {
	Dequantize map[string]struct {
		Input string   `json:"input_sha256"`
		CRC   []uint32 `json:"crc32"`
	}
	Quantize map[string]struct {
		CRC []uint32 `json:"crc32"`
	}
	Floats string `json:"floats_sha256"`
	Tool   map[string]struct {
		Blocks int
		CRC    []uint32 `json:"crc32"`
	} `json:"llama_quantize"`
	Models map[string]map[string]struct {
		Tensors, Elements int
		SHA               string `json:"sha256"`
	}
}

// unpack reads a gzip file of testdata.
func unpack(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readReference(t testing.TB) *reference {
	t.Helper()
	r := &reference{}
	if err := json.Unmarshal(unpack(t, "reference.json.gz"), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// typeOf returns the format called name.
func typeOf(t testing.TB, name string) gguf.Type {
	t.Helper()
	for _, typ := range Types() {
		if typ.String() == name {
			return typ
		}
	}
	t.Fatalf("the reference names the format %s", name)
	return 0
}

// stream is SplitMix64, as in make_reference.py.
func stream(seed uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		z := seed + uint64(i+1)*0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		out[i] = z ^ z>>31
	}
	return out
}

// encoded is make_reference.py's function of this name: random blocks with edge cases for scales, none of which is NaN or infinite.
func encoded(typ gguf.Type) []byte {
	size := int(typ.BlockBytes())
	var b []byte
	for _, x := range stream(1000+uint64(typ), (blocks*size+7)/8) {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	for i, fill := range []byte{0x00, 0xff, 0x80} {
		copy(b[i*size:], bytes.Repeat([]byte{fill}, size))
	}
	halves := map[gguf.Type][]int{
		gguf.Q4_1: {0, 2}, gguf.Q5_1: {0, 2}, gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208},
		gguf.Q8_0: {0}, gguf.Q4_0: {0}, gguf.Q5_0: {0},
	}[typ]
	for k, at := range halves {
		for i := range blocks {
			p := b[i*size+at:]
			h := binary.LittleEndian.Uint16(p)
			if h&0x7c00 == 0x7c00 {
				h &= 0xbfff
			}
			if i < 100 {
				h = edge(i, k)
			}
			binary.LittleEndian.PutUint16(p, h)
		}
	}
	return b[:blocks*size]
}

// edge is the k-th scale of block i, one of the first hundred.
func edge(i, k int) uint16 {
	edges := [...]uint16{0x0000, 0x0001, 0x03ff, 0x0400, 0x0401, 0x3bff, 0x3c00, 0x3c01, 0x7bfe, 0x7bff}
	at := i
	if k > 0 {
		at = i / 10
	}
	h := edges[at%10]
	if i%7 > 3 {
		h |= 0x8000
	}
	return h
}

// random returns n floats with exponents of low to high.
func random(seed uint64, n int, low, high uint64) []float32 {
	out := make([]float32, n)
	for i, x := range stream(seed, n) {
		e := (x>>32)%(high-low+1) + low
		out[i] = math.Float32frombits(uint32(x&0x807fffff | e<<23))
	}
	return out
}

// floats is make_reference.py's function of this name: blocks of weights of all kinds.
func floats() []float32 {
	var out []float32
	for i := range blocks {
		if i%10 == 4 {
			out = append(out, ties(i/10%4, uint64(5000+i))...)
		} else {
			out = append(out, block(i%10, uint64(5000+i))...)
		}
	}
	return out
}

func block(kind int, seed uint64) []float32 {
	exponents := [10][2]uint64{{110, 123}, {124, 124}, {0, 0}, {100, 140}, {}, {96, 106}, {110, 120}, {0, 0}, {200, 250}, {1, 252}}[kind]
	x := random(seed, 32, exponents[0], exponents[1])
	switch kind {
	case 2: // zeros of both signs
		for i, f := range x {
			x[i] = math.Float32frombits(math.Float32bits(f) & (1 << 31))
		}
	case 3: // one number over and over
		for i := range x {
			x[i] = x[0]
		}
	case 6: // one number far from the others
		x[seed%32] = random(seed+10000, 1, 130, 138)[0]
	}
	return x
}

// ties is 32 multiples of an eighth, many of them half way between two quants.
func ties(kind int, seed uint64) []float32 {
	x, odd := make([]float32, 32), float32(1+2*(seed%50))
	steps := [...]uint64{64, 508, 62, 30}[kind]
	for i, r := range stream(seed, 32) {
		n := float32(r % (steps + 1))
		switch kind {
		case 0:
			x[i] = n/8 - 4
		case 1: // Q8_0 has a scale of 1
			x[i] = n/2 - 127
		default: // Q5_1 or Q4_1 have a scale of odd / 4
			x[i] = float32(n/8*odd) - 1
		}
	}
	switch kind {
	case 1:
		x[0] = 127
	case 2, 3:
		x[0], x[1] = -1, float32(float32(steps)/8*odd)-1
	}
	return x
}

// littleEndian is what numpy's tobytes makes of x.
func littleEndian(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, f := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// checkBlocks compares each block's checksum.
func checkBlocks(t *testing.T, b []byte, want []uint32) {
	t.Helper()
	if len(want) == 0 || len(b)%len(want) != 0 {
		t.Fatalf("%d bytes for %d blocks of the reference", len(b), len(want))
	}
	size := len(b) / len(want)
	for i, crc := range want {
		if got := b[i*size : (i+1)*size]; crc32.ChecksumIEEE(got) != crc {
			t.Fatalf("block %d of %d differs from the real tools': %x", i, len(want), got)
		}
	}
}

// TestDequantizeIsThatOfTheRealTools compares with gguf-py and ggml, which agree, bit for bit.
func TestDequantizeIsThatOfTheRealTools(t *testing.T) {
	r := readReference(t)
	if want := len(Types()) - 3; len(r.Dequantize) != want { // F32, F16 and BF16 have tests of their own
		t.Errorf("the reference has %d formats, want %d", len(r.Dequantize), want)
	}
	for name, want := range r.Dequantize {
		t.Run(name, func(t *testing.T) {
			typ := typeOf(t, name)
			b := encoded(typ)
			if got := sum(b); got != want.Input {
				t.Fatalf("the test makes other blocks than make_reference.py: sha256 %s, want %s", got, want.Input)
			}
			x := make([]float32, blocks*typ.BlockSize())
			if err := Dequantize(typ, b, x); err != nil {
				t.Fatal(err)
			}
			checkBlocks(t, littleEndian(x), want.CRC)
		})
	}
}

// TestDequantizeWhatLlamaQuantizeWrote does the same with blocks that the real program packed.
func TestDequantizeWhatLlamaQuantizeWrote(t *testing.T) {
	r, b := readReference(t), unpack(t, "kquants.bin.gz")
	for _, typ := range []gguf.Type{gguf.Q4_K, gguf.Q5_K, gguf.Q6_K} {
		want := r.Tool[typ.String()]
		n := want.Blocks * int(typ.BlockBytes())
		if want.Blocks < 10 || n > len(b) {
			t.Fatalf("%d blocks of %s in %d bytes", want.Blocks, typ, len(b))
		}
		x := make([]float32, want.Blocks*int(typ.BlockSize()))
		if err := Dequantize(typ, b[:n], x); err != nil {
			t.Fatal(err)
		}
		t.Run(typ.String(), func(t *testing.T) { checkBlocks(t, littleEndian(x), want.CRC) })
		b = b[n:]
	}
}

// TestQuantizeIsThatOfTheRealTools compares with ggml's reference, which llama-quantize runs, bit for bit.
func TestQuantizeIsThatOfTheRealTools(t *testing.T) {
	r, x := readReference(t), floats()
	if got := sum(littleEndian(x)); got != r.Floats {
		t.Fatalf("the test makes other floats than make_reference.py: sha256 %s, want %s", got, r.Floats)
	}
	for _, typ := range Types() {
		want, ok := r.Quantize[typ.String()]
		if !ok {
			if typ != gguf.F32 && encoder(typ) != nil {
				t.Errorf("%s can be encoded, but is not in the reference", typ)
			}
			continue
		}
		t.Run(typ.String(), func(t *testing.T) {
			n, _ := typ.RowBytes(int64(len(x)))
			b := make([]byte, n)
			if err := Quantize(typ, x, b); err != nil {
				t.Fatal(err)
			}
			checkBlocks(t, b, want.CRC)
		})
	}
}

// TestRealModels compares the weights of the real models with gguf-py: of each tensor the first 4 Mi elements, of each format about 12 Mi.
func TestRealModels(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the tests with real models")
	}
	const part, most = 4 << 20, 12 << 20
	r := readReference(t)
	for name, formats := range r.Models {
		path := os.Getenv(name)
		if path == "" {
			t.Fatalf("%s is not set: run `make test`, or set it to what `go run ./test/assets path` prints", name)
		}
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Map(); err != nil {
			t.Fatal(err)
		}
		for format, want := range formats {
			t.Run(name+"/"+format, func(t *testing.T) {
				typ, hash, x := typeOf(t, format), sha256.New(), make([]float32, part)
				tensors, elements := 0, 0
				for _, tensor := range f.Tensors() {
					if tensor.Type != typ || elements >= most {
						continue
					}
					b, err := f.Bytes(tensor)
					if err != nil {
						t.Fatal(err)
					}
					n := min(tensor.Elements(), part)
					size, _ := typ.RowBytes(n)
					if err := Dequantize(typ, b[:size], x[:n]); err != nil {
						t.Fatal(err)
					}
					hash.Write(littleEndian(x[:n]))
					tensors, elements = tensors+1, elements+int(n)
				}
				if got := hex.EncodeToString(hash.Sum(nil)); tensors != want.Tensors || elements != want.Elements || got != want.SHA {
					t.Errorf("%d tensors, %d elements, sha256 %s; want %+v", tensors, elements, got, want)
				}
			})
		}
	}
}
