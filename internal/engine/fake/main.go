package fake

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// options are what the command line says.
type options struct {
	as     Surface
	script Script
	// engine are the words behind --, in the played engine's own language.
	engine []string
}

// Main plays the engine until a signal ends it. args are the words behind `engine fake`. It returns the exit status.
func Main(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == portHolder {
		return holdPort(stdout)
	}
	o, done, err := parse(args, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "stoker engine fake: %v\nRun stoker engine fake --help for what there is.\n", err)
		return 2
	}
	if done {
		return 0
	}
	p := &process{opts: o, stdout: &lockedWriter{w: stdout}, stderr: &lockedWriter{w: stderr}}
	return p.run()
}

// parse reads our own flags, up to --.
func parse(args []string, stdout io.Writer) (o options, done bool, err error) {
	o.as = LlamaServer
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch name {
		case "--":
			o.engine = args[i+1:]
			return o, false, nil
		case "--help", "-h":
			_, err := io.WriteString(stdout, Help())
			return o, true, err
		case "--as", "--script":
			if !joined {
				if i++; i >= len(args) {
					return o, false, fmt.Errorf("%s needs a value", name)
				}
				value = args[i]
			}
			if err := o.set(name, value); err != nil {
				return o, false, err
			}
		default:
			return o, false, fmt.Errorf("unknown argument %q; the engine's own flags go behind --", args[i])
		}
	}
	return o, false, nil
}

func (o *options) set(name, value string) error {
	if name == "--script" {
		b, err := os.ReadFile(value)
		if err != nil {
			return fmt.Errorf("--script: %w", err)
		}
		o.script, err = ParseScript(b)
		return err
	}
	switch o.as = Surface(value); o.as {
	case LlamaServer, MLX, LM, Squatter:
		return nil
	}
	return fmt.Errorf("--as: %q is none of %s, %s, %s, %s", value, LlamaServer, MLX, LM, Squatter)
}
