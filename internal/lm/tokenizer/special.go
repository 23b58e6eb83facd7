package tokenizer

import (
	"slices"
	"strings"
)

// endPieces are the spellings of tokens after which generation ends, in whatever model they occur. Files name one such token or two, and
// many models use more; llama.cpp keeps the same list.
func endPieces() []string {
	return []string{
		"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>",
		"<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
		"<｜end▁of▁sentence｜>", "[e~[",
	}
}

// fillEnds are the tokens of filling in the middle at which generation ends too: padding, repository and file separators. Of each row the
// first that the vocabulary has counts.
func fillEnds() [][]string {
	return [][]string{
		{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"},
		{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
		{"<|file_sep|>"},
	}
}

// findEnds returns the tokens that end generation: those that the file names, and those with a known spelling. Their kind becomes control,
// because files forget to say it. "</s>" is left out unless the file says that it is a control token: elsewhere it is a HTML tag that
// text is full of (Gemma 3, Qwen), and llama.cpp, which takes it for an end all the same, stops there.
func findEnds(v *vocab, named ...int32) []int32 {
	found := map[int32]bool{}
	add := func(piece string) bool {
		id, ok := v.index.find(piece)
		if ok {
			found[id] = true
		}
		return ok
	}
	for _, p := range endPieces() {
		add(p)
	}
	for _, row := range fillEnds() {
		_ = slices.ContainsFunc(row, add)
	}
	if id, ok := v.index.find("</s>"); ok && v.kinds[id] == controlKind {
		found[id] = true
	}
	dropFalseEnds(v, found)
	for id := range found {
		v.kinds[id] = controlKind
	}
	for _, id := range named {
		if id != none {
			found[id] = true
		}
	}
	ids := make([]int32, 0, len(found))
	for id := range found {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// dropFalseEnds removes tokens that end a turn in one family and are something else in another: "<|end|>" ends a message, not the answer,
// where "<|return|>" and "<|call|>" exist (gpt-oss) or their like (Solar); "</s>" is a HTML tag in Gemma 4.
func dropFalseEnds(v *vocab, found map[int32]bool) {
	has := func(piece string) bool { _, ok := v.index.find(piece); return ok }
	drop := func(piece string) {
		if id, ok := v.index.find(piece); ok {
			delete(found, id)
		}
	}
	call := has("<|call|>") || has("<|calls|>")
	if call && (has("<|return|>") || has("<|flush|>")) {
		drop("<|end|>")
	}
	if has("<|tool_response>") || has("<|plamo:eos|>") {
		drop("</s>")
	}
}

// literalIndex is the index of the first space mark in s at from or later, or -1.
func literalIndex(s string, from int) int {
	i := strings.Index(s[from:], spaceMark)
	if i < 0 {
		return -1
	}
	return from + i
}
