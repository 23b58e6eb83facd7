package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
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
	p := &process{opts: o, stdout: stdout, stderr: &lockedWriter{w: stderr}}
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
	case LlamaServer, MLX, Squatter:
		return nil
	}
	return fmt.Errorf("--as: %q is none of %s, %s, %s", value, LlamaServer, MLX, Squatter)
}

// process is the engine as a process.
type process struct {
	opts   options
	stdout io.Writer
	stderr *lockedWriter
}

// lockedWriter lets several goroutines write whole pieces.
type lockedWriter struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (p *process) run() int {
	flags, code, done := p.engineFlags()
	if done {
		return code
	}
	sc := p.opts.script
	if sc.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	if sc.Grandchild {
		if err := startPortHolder(p.stdout); err != nil {
			fmt.Fprintln(p.stderr, "E", err)
			return 1
		}
	}
	if sc.DieAt == "bind" {
		return p.die(sc)
	}
	l, err := p.listen(flags)
	if err != nil {
		fmt.Fprintf(p.stderr, "E couldn't bind HTTP server socket: %v\n", err)
		return 1
	}
	return p.serve(l, flags)
}

func (p *process) listen(f map[string]string) (net.Listener, error) {
	if lost, err := p.portLost(); lost || err != nil {
		return nil, errors.Join(err, syscall.EADDRINUSE)
	}
	if strings.HasSuffix(f["--host"], ".sock") {
		return net.Listen("unix", f["--host"])
	}
	return net.Listen("tcp", net.JoinHostPort(f["--host"], f["--port"]))
}

// portLost counts the starts in the state file, and reports whether this one is to find its address taken.
func (p *process) portLost() (bool, error) {
	sc := p.opts.script
	if sc.PortLost == 0 {
		return false, nil
	}
	b, err := os.ReadFile(sc.StateFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b))) // an empty file counts as none
	return n < sc.PortLost, os.WriteFile(sc.StateFile, []byte(strconv.Itoa(n+1)), 0o600)
}

func (p *process) serve(l net.Listener, f map[string]string) int {
	sc := p.opts.script
	window, slots := number(f["--ctx-size"]), max(1, number(f["--parallel"]))
	s := NewServer(Config{
		As: p.opts.as, Script: sc, Window: window / slots, Slots: slots, Alias: f["--alias"], Noise: p.stderr, Key: f["--api-key"],
		Die: func(sc Script) { os.Exit(p.die(sc)) },
	})
	srv := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	ctx, stop := signal.NotifyContext(context.Background(), p.signals()...)
	defer stop()
	go p.load(sc)
	context.AfterFunc(ctx, func() { srv.Close() })
	fmt.Fprintf(p.stderr, "main: listening on http://%s\n", l.Addr())
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(p.stderr, "E", err)
		return 1
	}
	return 0
}

// signals are those that end the process in order.
func (p *process) signals() []os.Signal {
	if p.opts.script.IgnoreTerm {
		return []os.Signal{os.Interrupt}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM}
}

// load plays what happens while the model loads.
func (p *process) load(sc Script) {
	if sc.NoiseAt == "" || sc.NoiseAt == "load" {
		makeNoise(p.stderr, sc)
	}
	if sc.SilentAt == "load" {
		sayLastWords(p.stderr, sc)
		return
	}
	if sc.DieAt == "load" {
		time.Sleep(sc.Load / 2)
		os.Exit(p.die(sc))
	}
}

// die ends the process as the script says, or returns the exit status.
func (p *process) die(sc Script) int {
	sayLastWords(p.stderr, sc)
	word, code, err := sc.death()
	switch {
	case err != nil:
		return 1
	case word == "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL) //nolint:errcheck // it cannot fail and return
	case word == "abort":
		signal.Reset(syscall.SIGABRT)
		return 134
	default:
		return code
	}
	select {} // the signal is on its way
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// portHolder is the word that makes this program the scripted grandchild.
const portHolder = "--hold-a-port"

// startPortHolder starts a child that ignores SIGTERM and holds a port, and passes its line on.
func startPortHolder(stdout io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "engine", "fake", portHolder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line := make([]byte, 256)
	n, err := out.Read(line)
	if err != nil {
		return err
	}
	_, err = stdout.Write(line[:n])
	return err
}

// holdPort is the grandchild.
func holdPort(stdout io.Writer) int {
	signal.Ignore(syscall.SIGTERM)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Fprintf(stdout, "grandchild %d holds %s\n", os.Getpid(), l.Addr())
	for {
		time.Sleep(time.Hour)
	}
}
