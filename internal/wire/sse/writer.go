package sse

// AppendData appends an event without a name to dst. Line ends in data, of any form, arrive as LF.
func AppendData(dst, data []byte) []byte {
	dst = appendLines(dst, "data: ", data)
	return append(dst, '\n')
}

// AppendEvent appends an event named name, which must not hold line ends.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	return AppendData(append(dst, '\n'), data)
}

// AppendComment appends a comment. A client skips it, but the connection and whoever watches it see a sign of life.
func AppendComment(dst []byte, text string) []byte {
	dst = appendLines(dst, ": ", []byte(text))
	return append(dst, '\n')
}

// appendLines appends text with prefix before each of its lines.
func appendLines(dst []byte, prefix string, text []byte) []byte {
	for {
		n := lineEnd(text)
		dst = append(dst, prefix...)
		if n < 0 {
			dst = append(dst, text...)
			return append(dst, '\n')
		}
		dst = append(dst, text[:n]...)
		dst = append(dst, '\n')
		if text[n] == '\r' && n+1 < len(text) && text[n+1] == '\n' {
			n++
		}
		text = text[n+1:]
	}
}
