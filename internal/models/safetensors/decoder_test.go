package safetensors

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseDecoder(t *testing.T) {
	yes, no := true, false
	llama3 := RopeScaling{Type: "llama3", Factor: 32, LowFreq: 1, HighFreq: 4, Original: 8192}
	rope := Rope{Theta: 500000, Scaling: llama3}
	gemma, gemmaLocal := Rope{Theta: 1e6, Scaling: RopeScaling{Type: "linear", Factor: 8}}, Rope{Theta: 10000}
	tests := []struct {
		name, text string
		want       Decoder
	}{
		{"nothing", `{}`, Decoder{}},
		{
			"Llama 3.2 up to transformers 4", `{"model_type":"llama","num_hidden_layers":16,"intermediate_size":8192,"hidden_act":"silu","rms_norm_eps":1e-05,
			"rope_theta":500000.0,"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
			"original_max_position_embeddings":8192,"rope_type":"llama3"},"tie_word_embeddings":true,"attention_bias":false,"mlp_bias":true,
			"bos_token_id":128000,"eos_token_id":[128001,128008,128009]}`,
			Decoder{
				Config: Config{ModelType: "llama", Layers: 16}, FFN: 8192, Activation: "silu", Eps: 1e-5, Rope: rope, LocalRope: rope,
				TieEmbeddings: &yes, MLPBias: true, BOS: []int{128000}, EOS: []int{128001, 128008, 128009},
			},
		},
		{
			"Llama 3.2 from transformers 5 on", `{"rope_parameters":{"rope_theta":500000.0,"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
			"original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_scaling":null,"tie_word_embeddings":false,"attention_bias":true}`,
			Decoder{Rope: rope, LocalRope: rope, TieEmbeddings: &no, AttentionBias: true},
		},
		{
			"the old spelling of a type", `{"rope_theta":10000,"rope_scaling":{"type":"linear","factor":2}}`,
			Decoder{
				Rope:      Rope{Theta: 10000, Scaling: RopeScaling{Type: "linear", Factor: 2}},
				LocalRope: Rope{Theta: 10000, Scaling: RopeScaling{Type: "linear", Factor: 2}},
			},
		},
		{
			"both spellings of a type", `{"rope_scaling":{"type":"linear","rope_type":"yarn","factor":2}}`,
			Decoder{
				Rope:      Rope{Scaling: RopeScaling{Type: "yarn", Factor: 2}},
				LocalRope: Rope{Scaling: RopeScaling{Type: "yarn", Factor: 2}},
			},
		},
		{
			"no scaling by name, and a part of the head", `{"rope_parameters":{"rope_type":"default","rope_theta":1e6,"partial_rotary_factor":0.5,"factor":9}}`,
			Decoder{Rope: Rope{Theta: 1e6, Partial: 0.5}, LocalRope: Rope{Theta: 1e6, Partial: 0.5}},
		},
		{
			"a part of the head, on its own", `{"rope_theta":1e4,"partial_rotary_factor":0.75}`,
			Decoder{Rope: Rope{Theta: 1e4, Partial: 0.75}, LocalRope: Rope{Theta: 1e4, Partial: 0.75}},
		},
		{
			"theta beside parameters without one", `{"rope_theta":7,"rope_parameters":{"rope_type":"default"}}`,
			Decoder{Rope: Rope{Theta: 7}, LocalRope: Rope{Theta: 7}},
		},
		{
			"Gemma 3 up to transformers 4", `{"model_type":"gemma3_text","num_hidden_layers":26,"hidden_activation":"gelu_pytorch_tanh","hidden_act":"gelu",
			"query_pre_attn_scalar":256,"rope_theta":1000000,"rope_local_base_freq":10000.0,"rope_scaling":{"rope_type":"linear","factor":8.0},
			"sliding_window":512,"sliding_window_pattern":6,"attn_logit_softcapping":null,"final_logit_softcapping":30.0,"eos_token_id":[1,106],"bos_token_id":2}`,
			Decoder{
				Config:     Config{ModelType: "gemma3_text", Layers: 26, SlidingWindow: 512, SlidingPeriod: 6},
				Activation: "gelu_pytorch_tanh", QueryScalar: 256, Rope: gemma, LocalRope: gemmaLocal, FinalSoftcap: 30, EOS: []int{1, 106}, BOS: []int{2},
			},
		},
		{
			"Gemma 3 from transformers 5 on", `{"rope_parameters":{"full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":1000000},
			"sliding_attention":{"rope_type":"default","rope_theta":10000.0}},"attn_logit_softcapping":50}`,
			Decoder{Rope: gemma, LocalRope: gemmaLocal, AttnSoftcap: 50},
		},
		{
			"the language part of Gemma 3", `{"model_type":"gemma3","architectures":["X"],"eos_token_id":[1,106],"tie_word_embeddings":true,
			"text_config":{"num_hidden_layers":34,"intermediate_size":10240,"rope_theta":7,"eos_token_id":1,"bos_token_id":2,"tie_word_embeddings":false}}`,
			Decoder{
				Config: Config{ModelType: "gemma3", Architectures: []string{"X"}, Layers: 34}, FFN: 10240, Rope: Rope{Theta: 7}, LocalRope: Rope{Theta: 7},
				EOS: []int{1, 106}, BOS: []int{2}, TieEmbeddings: &yes,
			},
		},
		{
			"Qwen with a window", `{"use_sliding_window":true,"sliding_window":4096,"max_window_layers":28}`,
			Decoder{Config: Config{SlidingWindow: 4096}, SlidingFrom: 28},
		},
		{"Qwen without", `{"use_sliding_window":false,"sliding_window":4096,"max_window_layers":28}`, Decoder{}},
		{"no tokens", `{"bos_token_id":null,"eos_token_id":[null,-1]}`, Decoder{}},
		{"-1 for no token", `{"bos_token_id":-1,"eos_token_id":0}`, Decoder{EOS: []int{0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseDecoder([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("decoder (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseDecoderRefuses(t *testing.T) {
	tests := []struct{ name, text, word string }{
		{"not JSON", `{`, "config.json"},
		{"what ParseConfig refuses", `{"hidden_size":-1}`, "hidden_size"},
		{"a width for each layer", `{"intermediate_size":[1,2]}`, "intermediate_size"},
		{"a width below zero", `{"intermediate_size":-1}`, "intermediate_size"},
		{"a width beyond reason", `{"intermediate_size":100000000}`, "intermediate_size"},
		{"an epsilon above one", `{"rms_norm_eps":1.5}`, "rms_norm_eps"},
		{"a number that no float holds", `{"rms_norm_eps":1e999}`, "rms_norm_eps"},
		{"theta below zero", `{"rope_theta":-5}`, "rope_theta"},
		{"theta of the sliding layers", `{"rope_local_base_freq":-5}`, "sliding layers: rope_theta"},
		{"theta in a kind of layer", `{"rope_parameters":{"sliding_attention":{"rope_theta":-1}}}`, "sliding layers: rope_theta"},
		{"a factor below zero", `{"rope_scaling":{"type":"linear","factor":-2}}`, "factor"},
		{"a text as rope_scaling", `{"rope_scaling":"linear"}`, "rope_scaling"},
		{"a list as rope_parameters", `{"rope_parameters":[]}`, "rope_parameters"},
		{"a text as theta of a kind of layer", `{"rope_parameters":{"full_attention":{"rope_theta":"x"}}}`, "rope_theta"},
		{"more than the whole head", `{"partial_rotary_factor":2}`, "partial_rotary_factor"},
		{"a text as token", `{"eos_token_id":"</s>"}`, "config.json"},
		{"too many tokens", `{"eos_token_id":[1` + strings.Repeat(",1", 1<<12) + `]}`, "eos_token_id"},
		{"a window that begins nowhere", `{"use_sliding_window":true,"max_window_layers":-3}`, "max_window_layers"},
		{"a scalar below zero", `{"query_pre_attn_scalar":-1}`, "query_pre_attn_scalar"},
		{"a cap below zero", `{"final_logit_softcapping":-1}`, "final_logit_softcapping"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := ParseDecoder([]byte(tt.text))
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.word) {
				t.Errorf("%+v, error %v; want ErrInvalid that says %q", d, err, tt.word)
			}
		})
	}
}

// Looking at a model asks for less than running it.
func TestParseConfigPassesOverWhatOnlyEnginesWant(t *testing.T) {
	c, err := ParseConfig([]byte(`{"num_hidden_layers":30,"intermediate_size":[8192,8192],"rope_theta":[1,2],"eos_token_id":"x"}`))
	if err != nil || c.Layers != 30 {
		t.Errorf("%+v, %v", c, err)
	}
}

func FuzzParseDecoder(f *testing.F) {
	f.Add([]byte(`{"rope_theta":500000.0,"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":8192,"rope_type":"llama3"}}`))
	f.Add([]byte(`{"rope_parameters":{"full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":1000000},"sliding_attention":{"rope_theta":1}}}`))
	f.Add([]byte(`{"rope_parameters":{"type":"default"},"rope_local_base_freq":1,"bos_token_id":1,"eos_token_id":[1,null,-1],"tie_word_embeddings":null}`))
	f.Add([]byte(`{"text_config":{"intermediate_size":3,"rms_norm_eps":1e-6,"hidden_act":"silu","text_config":{}},"use_sliding_window":true,"max_window_layers":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseDecoder(text)
		if err != nil {
			return
		}
		for _, r := range []Rope{d.Rope, d.LocalRope} {
			s := r.Scaling
			if !(r.Theta >= 0 && s.Factor >= 0 && s.LowFreq >= 0 && s.HighFreq >= 0 && s.Original >= 0 && r.Partial <= 1) || s.Type == "default" {
				t.Errorf("rotation %+v makes no sense", r)
			}
		}
		if d.FFN < 0 || d.SlidingFrom < 0 || !(d.Eps >= 0 && d.Eps <= 1) || !(d.QueryScalar >= 0) {
			t.Errorf("decoder %+v makes no sense", d)
		}
		for _, id := range append(d.BOS, d.EOS...) {
			if id < 0 {
				t.Errorf("token %d", id)
			}
		}
	})
}
