package llamacpp

import (
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/enginetest"
)

func TestFaults(t *testing.T) {
	var dirs []string
	enginetest.Faults(t, enginetest.FaultConfig{
		Start: func(et enginetest.T, script string, stall time.Duration) (engine.Instance, error) {
			s := scriptedSpec(t)
			s.LoadStall, s.Window = stall, enginetest.FaultWindow
			dirs = append(dirs, s.RunDir)
			ctx, cancel := contextFor(time.Minute)
			defer cancel()
			return scriptedDriver(t, script).Start(ctx, s)
		},
		Left: func(enginetest.T) string {
			var left []string
			for _, d := range dirs {
				left = append(left, mine(t, d))
			}
			return strings.TrimSpace(strings.Join(left, " "))
		},
	})
}
