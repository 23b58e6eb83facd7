package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// appendValue encodes a metadata value with its kind in front.
func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []string:
		return appendArray(b, String, v), nil
	case []bool:
		return appendArray(b, Bool, v), nil
	case []int8:
		return appendArray(b, Int8, v), nil
	case []uint8:
		return appendArray(b, Uint8, v), nil
	case []int16:
		return appendArray(b, Int16, v), nil
	case []uint16:
		return appendArray(b, Uint16, v), nil
	case []int32:
		return appendArray(b, Int32, v), nil
	case []uint32:
		return appendArray(b, Uint32, v), nil
	case []int64:
		return appendArray(b, Int64, v), nil
	case []uint64:
		return appendArray(b, Uint64, v), nil
	case []float32:
		return appendArray(b, Float32, v), nil
	case []float64:
		return appendArray(b, Float64, v), nil
	}
	kind, ok := kindOf(v)
	if !ok {
		return nil, fmt.Errorf("a value of Go type %T has no kind in the format: use a sized integer, a float, a bool, a string or a slice of these", v)
	}
	return appendScalar(binary.LittleEndian.AppendUint32(b, uint32(kind)), v), nil
}

func appendArray[E any](b []byte, elem Kind, vs []E) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(Array))
	b = le.AppendUint32(b, uint32(elem))
	b = le.AppendUint64(b, uint64(len(vs)))
	for _, v := range vs {
		b = appendScalar(b, v)
	}
	return b
}

// kindOf returns the kind that holds a Go value which is not a slice.
func kindOf(v any) (Kind, bool) {
	switch v.(type) {
	case string:
		return String, true
	case bool:
		return Bool, true
	case int8:
		return Int8, true
	case uint8:
		return Uint8, true
	case int16:
		return Int16, true
	case uint16:
		return Uint16, true
	case int32:
		return Int32, true
	case uint32:
		return Uint32, true
	case int64:
		return Int64, true
	case uint64:
		return Uint64, true
	case float32:
		return Float32, true
	case float64:
		return Float64, true
	}
	return 0, false
}

// appendScalar encodes a value that kindOf knows, without its kind.
func appendScalar(b []byte, v any) []byte {
	le := binary.LittleEndian
	switch v := v.(type) {
	case string:
		return appendString(b, v)
	case bool:
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case int8:
		return append(b, byte(v))
	case uint8:
		return append(b, v)
	case int16:
		return le.AppendUint16(b, uint16(v))
	case uint16:
		return le.AppendUint16(b, v)
	case int32:
		return le.AppendUint32(b, uint32(v))
	case uint32:
		return le.AppendUint32(b, v)
	case int64:
		return le.AppendUint64(b, uint64(v))
	case uint64:
		return le.AppendUint64(b, v)
	case float32:
		return le.AppendUint32(b, math.Float32bits(v))
	case float64:
		return le.AppendUint64(b, math.Float64bits(v))
	}
	return b
}
