package gguf

import (
	"fmt"
	"math/bits"
)

// Type is the number format of a tensor, by its id in the file.
type Type uint32

// The tensor types that models store. The names are those of ggml.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42
)

// typeInfo is one row of the type table.
type typeInfo struct {
	name string
	// block is the elements that are stored together, in bytes bytes.
	block, bytes int64
}

// info returns the row of t. A switch rather than a map: no package-level state, and a type without a row is unknown.
func (t Type) info() (typeInfo, bool) {
	if i, ok := t.plain(); ok {
		return i, true
	}
	switch t {
	case Q4_0:
		return typeInfo{"Q4_0", 32, 18}, true
	case Q4_1:
		return typeInfo{"Q4_1", 32, 20}, true
	case Q5_0:
		return typeInfo{"Q5_0", 32, 22}, true
	case Q5_1:
		return typeInfo{"Q5_1", 32, 24}, true
	case Q8_0:
		return typeInfo{"Q8_0", 32, 34}, true
	case Q8_1:
		return typeInfo{"Q8_1", 32, 36}, true
	case Q2_K:
		return typeInfo{"Q2_K", 256, 84}, true
	case Q3_K:
		return typeInfo{"Q3_K", 256, 110}, true
	case Q4_K:
		return typeInfo{"Q4_K", 256, 144}, true
	case Q5_K:
		return typeInfo{"Q5_K", 256, 176}, true
	case Q6_K:
		return typeInfo{"Q6_K", 256, 210}, true
	case Q8_K:
		return typeInfo{"Q8_K", 256, 292}, true
	case MXFP4:
		return typeInfo{"MXFP4", 32, 17}, true
	case NVFP4:
		return typeInfo{"NVFP4", 64, 36}, true
	case Q1_0:
		return typeInfo{"Q1_0", 128, 18}, true
	case Q2_0:
		return typeInfo{"Q2_0", 64, 18}, true
	}
	return t.codebook()
}

// plain returns the row of a type that stores each element by itself.
func (t Type) plain() (typeInfo, bool) {
	switch t {
	case F32:
		return typeInfo{"F32", 1, 4}, true
	case F16:
		return typeInfo{"F16", 1, 2}, true
	case BF16:
		return typeInfo{"BF16", 1, 2}, true
	case F64:
		return typeInfo{"F64", 1, 8}, true
	case I8:
		return typeInfo{"I8", 1, 1}, true
	case I16:
		return typeInfo{"I16", 1, 2}, true
	case I32:
		return typeInfo{"I32", 1, 4}, true
	case I64:
		return typeInfo{"I64", 1, 8}, true
	}
	return typeInfo{}, false
}

// codebook returns the row of a type whose values come from a table, or of a ternary one.
func (t Type) codebook() (typeInfo, bool) {
	switch t {
	case IQ1_S:
		return typeInfo{"IQ1_S", 256, 50}, true
	case IQ1_M:
		return typeInfo{"IQ1_M", 256, 56}, true
	case IQ2_XXS:
		return typeInfo{"IQ2_XXS", 256, 66}, true
	case IQ2_XS:
		return typeInfo{"IQ2_XS", 256, 74}, true
	case IQ2_S:
		return typeInfo{"IQ2_S", 256, 82}, true
	case IQ3_XXS:
		return typeInfo{"IQ3_XXS", 256, 98}, true
	case IQ3_S:
		return typeInfo{"IQ3_S", 256, 110}, true
	case IQ4_NL:
		return typeInfo{"IQ4_NL", 32, 18}, true
	case IQ4_XS:
		return typeInfo{"IQ4_XS", 256, 136}, true
	case TQ1_0:
		return typeInfo{"TQ1_0", 256, 54}, true
	case TQ2_0:
		return typeInfo{"TQ2_0", 256, 66}, true
	}
	return typeInfo{}, false
}

// Known reports whether t is in the type table.
func (t Type) Known() bool { _, ok := t.info(); return ok }

// String returns the name of t, such as "Q4_K".
func (t Type) String() string {
	if i, ok := t.info(); ok {
		return i.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// BlockSize is the number of consecutive elements of a row that t stores together, 0 for an unknown type.
func (t Type) BlockSize() int64 { i, _ := t.info(); return i.block }

// BlockBytes is the bytes that a block takes, 0 for an unknown type.
func (t Type) BlockBytes() int64 { i, _ := t.info(); return i.bytes }

// Quantized reports whether t stores several elements in one block.
func (t Type) Quantized() bool { return t.BlockSize() > 1 }

// RowBytes is the bytes that n consecutive elements take. ok is false if t is unknown, n is not a multiple of its block
// size, or the result does not fit an int64.
func (t Type) RowBytes(n int64) (size int64, ok bool) {
	i, known := t.info()
	if !known || n < 0 || n%i.block != 0 {
		return 0, false
	}
	return mul(n/i.block, i.bytes)
}

// removedType returns the name of a type that files of 2023 and 2024 may hold and that no current engine reads.
func removedType(t Type) (string, bool) {
	switch t {
	case 4:
		return "Q4_2", true
	case 5:
		return "Q4_3", true
	case 31:
		return "Q4_0_4_4", true
	case 32:
		return "Q4_0_4_8", true
	case 33:
		return "Q4_0_8_8", true
	case 36:
		return "IQ4_NL_4_4", true
	case 37:
		return "IQ4_NL_4_8", true
	case 38:
		return "IQ4_NL_8_8", true
	}
	return "", false
}

// Kind is the type of a metadata value, by its id in the file.
type Kind uint32

// The kinds of metadata values.
const (
	Uint8   Kind = 0
	Int8    Kind = 1
	Uint16  Kind = 2
	Int16   Kind = 3
	Uint32  Kind = 4
	Int32   Kind = 5
	Float32 Kind = 6
	Bool    Kind = 7
	String  Kind = 8
	Array   Kind = 9
	Uint64  Kind = 10
	Int64   Kind = 11
	Float64 Kind = 12
)

// String returns the kind's name, such as "uint32".
func (k Kind) String() string {
	names := [...]string{
		"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array",
		"uint64", "int64", "float64",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// size is the bytes of one value of a kind with a fixed size, 0 for strings, arrays and unknown kinds.
func (k Kind) size() int64 {
	switch k {
	case Uint8, Int8, Bool:
		return 1
	case Uint16, Int16:
		return 2
	case Uint32, Int32, Float32:
		return 4
	case Uint64, Int64, Float64:
		return 8
	default:
		return 0
	}
}

// mul multiplies two numbers that are not negative. ok is false if the product does not fit an int64.
func mul(a, b int64) (product int64, ok bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > 1<<63-1 {
		return 0, false
	}
	return int64(lo), true
}
