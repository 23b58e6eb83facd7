package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/stoker-llm/stoker/internal/lm/tensor"
	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// Source is rows as a file stores them.
type Source struct {
	Type gguf.Type
	// Row returns row i: the bytes of all its blocks.
	Row func(i int) []byte
}

// Pack packs rows first to first+n of the matrix from rows 0 to n of src. Different rows may be packed at the same time.
func (m *Matrix) Pack(first, n int, src Source) error {
	want, ok := src.Type.RowBytes(int64(m.cols))
	put := packer(src.Type, m.layout)
	if !ok || put == nil {
		return fmt.Errorf("rows of %s with %d columns do not go into layout %d", src.Type, m.cols, m.layout)
	}
	if first < 0 || n < 0 || first+n > m.rows {
		return fmt.Errorf("rows %d to %d of %d", first, first+n, m.rows)
	}
	blocks := m.cols / int(src.Type.BlockSize())
	perSuper := m.shape.superCols / int(src.Type.BlockSize())
	size := int(src.Type.BlockBytes())
	for i := range n {
		row := src.Row(i)
		if int64(len(row)) != want {
			return fmt.Errorf("a row of %d bytes, want %d", len(row), want)
		}
		group, lane := (first+i)/GroupRows, (first+i)%GroupRows
		dst := m.mem[group*m.stride : (group+1)*m.stride]
		for s := range blocks / perSuper {
			if err := put(dst[s*m.shape.super():(s+1)*m.shape.super()], row[:perSuper*size], lane); err != nil {
				return fmt.Errorf("row %d, column %d: %w", first+i, s*m.shape.superCols, err)
			}
			row = row[perSuper*size:]
		}
	}
	return nil
}

// packer returns the function that writes one row's part of a super-block: dst is the super-block of the group, src the row's own
// blocks for its columns.
func packer(t gguf.Type, l Layout) func(dst, src []byte, lane int) error {
	switch {
	case t == gguf.F32 && l == layF32:
		return func(dst, src []byte, lane int) error { return words(dst, src, lane, 4) }
	case t == gguf.F16 && l == layF16, t == gguf.BF16 && l == layBF16:
		return func(dst, src []byte, lane int) error { return words(dst, src, lane, 2) }
	case t == gguf.Q8_0 && l == lay8:
		return func(dst, src []byte, lane int) error {
			put16(dst, lane, src)
			for k, q := range src[2:34] {
				dst[64+k*32+lane] = q
			}
			return nil
		}
	case t == gguf.Q5_0 && l == lay8:
		return func(dst, src []byte, lane int) error {
			put16(dst, lane, src)
			for k := range 32 {
				dst[64+k*32+lane] = fifth(src[2:6], src[6:22], k) - 16
			}
			return nil
		}
	case (t == gguf.Q4_0 || t == gguf.Q4_1) && l == lay4:
		return func(dst, src []byte, lane int) error { return pack4(dst, src, lane, t, nibblePairs) }
	case t == gguf.Q5_1 && l == lay5:
		return func(dst, src []byte, lane int) error {
			put16(dst, lane, src)
			put16(dst[64:], lane, src[2:])
			for k := range 32 {
				dst[128+k*32+lane] = fifth(src[4:8], src[8:24], k)
			}
			return nil
		}
	case t == gguf.Q4_K && l == layK4:
		return packK4
	case t == gguf.Q5_K && l == layK5:
		return packK5
	case t == gguf.Q6_K && l == layK6:
		return packK6
	case t == gguf.Q8_0 && l == fast8:
		return func(dst, src []byte, lane int) error {
			put16(dst, lane, src)
			for k, q := range src[2:34] {
				dst[64+k/4*128+lane*4+k%4] = q
			}
			return nil
		}
	case t == gguf.Q5_0 && l == fast8:
		return func(dst, src []byte, lane int) error {
			put16(dst, lane, src)
			for k := range 32 {
				dst[64+k/4*128+lane*4+k%4] = fifth(src[2:6], src[6:22], k) - 16
			}
			return nil
		}
	case (t == gguf.Q4_0 || t == gguf.Q4_1) && l == fast4:
		return func(dst, src []byte, lane int) error { return pack4(dst, src, lane, t, nibbleLines) }
	}
	return nil
}

func put16(dst []byte, lane int, src []byte) { dst[2*lane], dst[2*lane+1] = src[0], src[1] }

// words copies elements of size bytes.
func words(dst, src []byte, lane, size int) error {
	for k := range 32 {
		copy(dst[(k*32+lane)*size:(k*32+lane+1)*size], src[k*size:(k+1)*size])
	}
	return nil
}

// fifth is element k of a block of 5 bits: 4 in the halves of low, the fifth in a bit of high.
func fifth(high, low []byte, k int) byte {
	return nibble(low, k) | byte(binary.LittleEndian.Uint32(high)>>k&1)<<4
}

// nibble is element k of 16 bytes: the lower halves come first.
func nibble(low []byte, k int) byte { return low[k%16] >> (k / 16 * 4) & 15 }

// pack4 packs formats of 4 bits with their scale and minimum. Q4_0 has none of its own: d*(q-8) is d*q + m with m = -8d, which is
// exact in half precision unless it overflows.
func pack4(dst, src []byte, lane int, t gguf.Type, lines func(dst, low []byte, lane int)) error {
	put16(dst, lane, src)
	if t == gguf.Q4_1 {
		put16(dst[64:], lane, src[2:])
		lines(dst[128:], src[4:20], lane)
		return nil
	}
	d := binary.LittleEndian.Uint16(src)
	m, ok := timesMinus8(d)
	if !ok {
		return fmt.Errorf("the scale %g is too large", tensor.F16ToF32(d))
	}
	binary.LittleEndian.PutUint16(dst[64+2*lane:], m)
	lines(dst[128:], src[2:18], lane)
	return nil
}

// timesMinus8 returns -8d in half precision, exactly. ok is false if it is too large.
func timesMinus8(d uint16) (m uint16, ok bool) {
	exp, man := d>>10&31, d&0x3ff
	for range 3 {
		switch {
		case exp >= 30:
			return 0, false
		case exp > 0:
			exp++
		case man < 0x200: // subnormal
			man <<= 1
		default: // becomes normal
			exp, man = 1, man<<1&0x3ff
		}
	}
	return (d&0x8000 ^ 0x8000) | exp<<10 | man, true
}

// nibblePairs writes columns 2t and 2t+1 to the halves of line t.
func nibblePairs(dst, low []byte, lane int) {
	for t := range 8 {
		dst[t*32+lane] = low[2*t]&15 | low[2*t+1]<<4
		dst[(t+8)*32+lane] = low[2*t]>>4 | low[2*t+1]&0xf0
	}
}

// nibbleLines writes 4 bytes for each of 4 lines: byte j of line t holds columns 4t+j and 16+4t+j.
func nibbleLines(dst, low []byte, lane int) {
	for t := range 4 {
		copy(dst[t*128+lane*4:], low[4*t:4*t+4])
	}
}

func packK4(dst, src []byte, lane int) error {
	put16(dst, lane, src)
	put16(dst[64:], lane, src[2:])
	for j := range 8 {
		sub := dst[128+j*(64+512):]
		sub[lane], sub[32+lane] = tensor.KScale(src[4:16], j)
		q := src[16+j/2*32:]
		shift := 4 * (j % 2)
		for t := range 16 {
			sub[64+t*32+lane] = q[2*t]>>shift&15 | q[2*t+1]>>shift&15<<4
		}
	}
	return nil
}

func packK5(dst, src []byte, lane int) error {
	put16(dst, lane, src)
	put16(dst[64:], lane, src[2:])
	for j := range 8 {
		sub := dst[128+j*(64+1024):]
		sub[lane], sub[32+lane] = tensor.KScale(src[4:16], j)
		q, high := src[48+j/2*32:], src[16:48]
		for k := range 32 {
			sub[64+k*32+lane] = q[k]>>(4*(j%2))&15 | high[k]>>j&1<<4
		}
	}
	return nil
}

func packK6(dst, src []byte, lane int) error {
	low, high, scales := src[:128], src[128:192], src[192:208]
	put16(dst, lane, src[208:])
	for j := range 16 {
		sub := dst[64+j*(32+512):]
		sub[lane] = scales[j]
		for i := range 16 {
			k := j*16 + i
			h, r := k/128, k%128
			l := low[h*64+r%64] >> (4 * (r / 64)) & 15
			u := high[h*32+r%32] >> (2 * (r / 32)) & 3
			sub[32+i*32+lane] = (l | u<<4) - 32
		}
	}
	return nil
}
