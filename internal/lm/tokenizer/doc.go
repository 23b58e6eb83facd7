// Package tokenizer turns text into the tokens of a model, and tokens into text. It stands alone: the embedded engine uses it, and the
// gateway counts with it what other engines will be asked.
//
//	tok, err := tokenizer.FromGGUF(file)                     // or FromJSON(tokenizer.json, tokenizer_config.json)
//	ids := tok.Encode(prompt, tokenizer.Options{Special: true, BOS: true})
//	d := tok.Decoder().Continue()
//	for id := range answer {
//		write(d.Next(id))                                // bytes; a character may come in parts
//	}
//
// # What is read
//
// The tokens are those of the model's original tokenizer, as Hugging Face's library computes them; where llama.cpp differs from it, as
// it does for Qwen's normalisation, the original is followed. Two kinds are known:
//
//   - Byte-pair vocabularies of bytes: Llama 3, Qwen 2 to 3.5, GPT-2, GPT-4o and gpt-oss, Mistral's Tekken, SmolLM, StarCoder, Refact,
//     Command-R, Falcon, MPT, OLMo and GPT-NeoX, DeepSeek (LLM, Coder, V3, R1), GLM 4 and those that share a pattern with one of them.
//   - Vocabularies of characters with marks for spaces and bytes for what is missing (SentencePiece): Llama 2, Mistral, Phi-3, Gemma 1
//     to 4, from scores (GGUF) or merges (tokenizer.json, Gemma 4's GGUF).
//
// A GGUF file says how its text is cut by a name only (tokenizer.ggml.pre), and tokenizer.json by a regular expression. For both there
// is a table of matchers written by hand (families.go), because Go's own regular expressions have no look-ahead and a general engine is
// ten times slower; what is not in the table is refused by name, never guessed. WordPiece (BERT), Unigram (T5) and RWKV's
// vocabularies are not read.
//
// # The way of a text
//
// Encode looks for added tokens, the longest first. What is left is edited (normalised, spaces marked), cut into words by the family's
// patterns, and each word is merged: its bytes or characters are joined two at a time, by rank. Words come again and again, so their
// tokens are remembered in a bounded cache; a long word is merged with a heap, so that no text takes quadratic time. Vocabularies of
// characters have no words, but their text can be cut before each space that no token holds behind another character: the tokens stay
// the same, and it is ten times faster.
//
// Text that users wrote must be encoded without Options.Special: then no spelling in it becomes a control token, neither by being looked
// for nor by merging.
//
// # Concurrency
//
// A Tokenizer may be used from any number of goroutines at once; they share the cache without locks. A Decoder belongs to one. Nothing
// here waits, reads files or logs. A tokenizer takes 10 MB (SmolLM2) to 60 MB (Gemma 3), and some 15 to 300 ms
// to build.
package tokenizer
