package weights

import "github.com/stoker-llm/stoker/internal/infer"

func openFolder(string) (*File, error) {
	return nil, infer.Errorf(infer.ErrUnsupported, "model", "folders are not read yet")
}
