package tokenizer

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// patterns are the split patterns that we know, by their text in tokenizer.json, and how to cut by them. The text is data of the models:
// a pattern that differs in one character is another one.
func patterns() map[string]func() stage {
	return map[string]func() stage{
		llama3Pattern: func() stage { return wordPattern{contractions: true, digits: 3, tail: "\r\n"}.stage() },
		qwen2Pattern:  func() stage { return wordPattern{contractions: true, digits: 1, tail: "\r\n"}.stage() },
		qwen35Pattern: func() stage { return wordPattern{contractions: true, marks: true, digits: 1, tail: "\r\n"}.stage() },
		o200kPattern:  func() stage { return casePattern{contractions: true, digits: 3}.stage() },
		tekkenPattern: func() stage { return casePattern{digits: 1}.stage() },
		gpt2Pattern:   gpt2,

		punctuationPattern: func() stage { return isolate(punctuation(true)) },
		defaultPunctuation: func() stage { return isolate(punctuation(false)) },
		deepseekPattern:    deepseekWords,
		`\p{N}`:            func() stage { return isolate(digits(1)) },
		`\p{N}{1,3}`:       func() stage { return isolate(digits(3)) },
		`\p{N}+`:           func() stage { return isolate(classRun(number)) },
		`[0-9][0-9][0-9]`:  func() stage { return isolate(threeDigits) },
		"[\r\n]":           func() stage { return isolate(newline) },
		`[\r\n]`:           func() stage { return isolate(newline) },
		`\s?\p{L}+`:        func() stage { return isolate(spacedRun(letter)) },
		`\s?\p{P}+`:        func() stage { return isolate(spacedRun(punct)) },
		`\s+$`:             trailingSpace,
		set(cjkKana):       func() stage { return isolate(setRun(parseSet(cjkKana), false)) },
		set(cjkHangul):     func() stage { return isolate(setRun(parseSet(cjkHangul), false)) },
		`\s?` + set(cased): func() stage { return isolate(setRun(parseSet(cased), true)) },
		`\s?` + set(signs): func() stage { return isolate(setRun(parseSet(signs), true)) },
	}
}

const (
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|` +
		`\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	o200kPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|` +
		`\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	deepseekPattern = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" +
		" ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"

	cjkKana   = "一-龥\u3040-ゟ゠-ヿ"
	cjkHangul = "一-龥ࠀ-一가-\ud7ff"
	signs     = "!-/:-~！-／：-～‘-‟\u3000-。"
)

// cased are the letters that have a case, as the DeepSeek LLM models list them.
const cased = "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ" +
	"Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ" +
	"-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"

func set(inside string) string { return "[" + inside + "]+" }

// family is what tokenizer.ggml.pre names: all that a GGUF file does not say about a byte-pair tokenizer. Names lists the values of the
// key that mean this family.
type family struct {
	names []string
	// split are patterns, in the order in which the text is cut by them.
	split []string
	// nfc: the text is normalised first. GGUF files do not say it, so it is from the models' own tokenizer.json, where we know that.
	nfc bool
	// whole: a word that is a token is that token, whatever the merges say (ignore_merges).
	whole bool
	// bos: the beginning token is wanted unless the file says otherwise.
	bos bool
}

// families are the byte-pair families that we know from GGUF files.
func families() []family {
	return []family{
		{
			names: []string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
			split: []string{llama3Pattern}, whole: true, bos: true,
		},
		{names: []string{"dbrx", "smaug-bpe", "chatglm-bpe"}, split: []string{llama3Pattern}},
		{names: []string{"glm4", "glm5"}, split: []string{llama3Pattern}, whole: true},
		{names: []string{"qwen2", "deepseek-r1-qwen"}, split: []string{qwen2Pattern}, nfc: true},
		{names: []string{"stablelm2", "hunyuan", "solar-open", "grok-2", "megrez"}, split: []string{qwen2Pattern}},
		{names: []string{"qwen35"}, split: []string{qwen35Pattern}, nfc: true},
		{names: []string{"gpt-4o", "llama4", "kanana2", "minimax-m2"}, split: []string{o200kPattern}},
		{names: []string{"tekken"}, split: []string{tekkenPattern}, whole: true, bos: true},
		{
			names: []string{"gpt-2", "phi-2", "mellum", "exaone4", "gigachat", "a.x-4.0", "jais", "trillion", "granite-docling"},
			split: []string{gpt2Pattern},
		},
		{names: []string{"mpt", "olmo", "gpt-neox"}, split: []string{gpt2Pattern}, nfc: true},
		{
			names: []string{"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"},
			split: []string{`\p{N}`, gpt2Pattern},
		},
		{names: []string{"command-r"}, split: []string{`\p{N}`, gpt2Pattern}, nfc: true},
		{names: []string{"falcon"}, split: []string{punctuationPattern, gpt2Pattern, `[0-9][0-9][0-9]`}},
		{
			names: []string{"deepseek-llm"},
			split: []string{"[\r\n]", `\s?` + set(cased), `\s?` + set(signs), `\s+$`, set(cjkHangul), `\p{N}+`},
		},
		{names: []string{"deepseek-coder"}, split: []string{"[\r\n]", `\s?\p{L}+`, `\s?\p{P}+`, set(cjkHangul), `\p{N}`}},
		{names: []string{"deepseek-v3", "hunyuan-dense", "joyai-llm"}, split: []string{`\p{N}{1,3}`, set(cjkKana), deepseekPattern}},
		{names: []string{"default"}, split: []string{defaultPunctuation, gpt2Pattern, `\p{N}+`, `[0-9][0-9][0-9]`}},
	}
}

const (
	// punctuationPattern stands for the step Punctuation of tokenizer.json, which has no pattern text.
	punctuationPattern = "Punctuation"
	// defaultPunctuation is what llama.cpp takes for files without tokenizer.ggml.pre; a backtick is not in it.
	defaultPunctuation = `[\p{P}\$\+<=>\^~\|]+`
)

// findFamily returns the family that a value of tokenizer.ggml.pre names.
func findFamily(pre string) (family, bool) {
	for _, f := range families() {
		if slices.Contains(f.names, pre) {
			return f, true
		}
	}
	return family{}, false
}

// familyNames lists the known values of tokenizer.ggml.pre.
func familyNames() string {
	var all []string
	for _, f := range families() {
		all = append(all, f.names...)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// stages compiles the family's patterns.
func (f family) stages() []stage {
	known := patterns()
	var out []stage
	for _, p := range f.split {
		out = append(out, known[p]())
	}
	return out
}

// edits are the family's changes of the text before it is cut.
func (f family) edits() []edit {
	if !f.nfc {
		return nil
	}
	return []edit{normal(norm.NFC)}
}
