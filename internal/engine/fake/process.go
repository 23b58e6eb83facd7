package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is the engine as a process.
type process struct {
	opts           options
	stdout, stderr *lockedWriter
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
	if only := p.opts.script.OnlyAlias; only != "" && only != flags["--alias"] {
		p.opts.script = Script{}
	}
	sc := p.opts.script
	ctx, stop := signal.NotifyContext(context.Background(), p.signals()...)
	defer stop()
	if sc.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	if sc.Grandchild {
		if err := startPortHolder(p.stdout); err != nil {
			fmt.Fprintln(p.stderr, "E", err)
			return 1
		}
	}
	switch "bind" {
	case sc.DieAt:
		return p.die(sc)
	case sc.SilentAt:
		sayLastWords(p.stderr, sc)
		<-ctx.Done()
		return 0
	}
	l, err := p.listen(flags)
	if err != nil {
		if p.opts.as == LM {
			fmt.Fprintln(p.stderr, err)
			return 1
		}
		fmt.Fprintf(p.stderr, "E srv  llama_server: couldn't bind HTTP server socket, hostname: %s, port: %s: %v\n", flags["--host"], flags["--port"], err)
		return 1
	}
	return p.serve(ctx, l, flags)
}

func (p *process) listen(f map[string]string) (net.Listener, error) {
	if lost, err := p.portLost(); lost || err != nil {
		return nil, errors.Join(err, syscall.EADDRINUSE)
	}
	if !strings.HasSuffix(f["--host"], ".sock") {
		return net.Listen("tcp", net.JoinHostPort(f["--host"], f["--port"]))
	}
	l, err := net.Listen("unix", f["--host"])
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // llama-server leaves the file behind too
	}
	return l, err
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

// idleTimeout is when llama-server closes a connection that nobody uses.
const idleTimeout = 5 * time.Second

func (p *process) serve(ctx context.Context, l net.Listener, f map[string]string) int {
	noisy := make(chan struct{})
	s := NewServer(p.config(f, noisy))
	srv := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, IdleTimeout: idleTimeout}
	go p.load(ctx, s, l.Addr(), noisy)
	context.AfterFunc(ctx, func() { srv.Close() })
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(p.stderr, "E", err)
		return 1
	}
	return 0
}

// config is what the engine's flags say. noisy keeps it loading.
func (p *process) config(f map[string]string, noisy <-chan struct{}) Config {
	slots := max(1, number(f["--parallel"]))
	window := cmp.Or(number(f["--ctx-size"]), 4096) // 0 is what the model was made for
	if f["--kv-unified"] != "true" {
		window /= slots
	}
	alias := strings.Split(f["--alias"], ",")
	slices.Sort(alias)
	return Config{
		As: p.opts.as, Script: p.opts.script, Window: window, Slots: slots, Alias: cmp.Or(alias[0], f["--model"]), Key: f["--api-key"],
		Metrics: f["--metrics"] == "true", NoSlots: f["--slots"] == "false", Hold: noisy, Noise: p.stderr, Stdout: p.stdout,
		Die: func(sc Script) { os.Exit(p.die(sc)) },
	}
}

// signals are those that end the process in order.
func (p *process) signals() []os.Signal {
	if p.opts.script.IgnoreTerm {
		return []os.Signal{os.Interrupt}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM}
}

// load plays what happens while the model loads, and says when it is done.
func (p *process) load(ctx context.Context, s *Server, at net.Addr, noisy chan<- struct{}) {
	sc := p.opts.script
	if p.opts.as == MLX {
		p.sayListening(at)
	}
	if sc.NoiseAt == "" || sc.NoiseAt == "load" {
		makeNoise(p.stderr, p.stdout, sc)
	}
	close(noisy)
	if sc.SilentAt == "load" {
		sayLastWords(p.stderr, sc)
	}
	said := 0
	tick := time.NewTicker(loadStep)
	defer tick.Stop()
	for far := s.loaded(); far < 1; far = s.loaded() {
		if sc.DieAt == "load" && far >= 0.5 {
			break
		}
		if tenths := int(far * 10); tenths > said && p.opts.as != LM { // that one's load is watched on its socket
			said = tenths
			fmt.Fprintf(p.stderr, "I srv    load_model: %d%%\n", said*10)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	if sc.DieAt == "load" {
		os.Exit(p.die(sc))
	}
	if p.opts.as != MLX && p.opts.as != LM {
		fmt.Fprintln(p.stderr, "I srv  llama_server: model loaded")
		p.sayListening(at)
	}
}

// loadStep is how often loading looks how far it is.
const loadStep = 10 * time.Millisecond

// sayListening says where, as the engine does: mlx_lm.server at once, llama-server when the model is loaded.
func (p *process) sayListening(at net.Addr) {
	if p.opts.as == MLX {
		host, port, err := net.SplitHostPort(at.String())
		if err == nil {
			fmt.Fprintf(p.stderr, "INFO - Starting httpd at %s on port %s...\n", host, port)
		}
		return
	}
	where := "http://" + at.String()
	if at.Network() == "unix" {
		where = "unix://" + at.String()
	}
	fmt.Fprintf(p.stderr, "I srv  llama_server: listening on %s\n", where)
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
		// Our own runtime answers SIGABRT with a page of stacks and exit status 2, so another program takes our place for it.
		err := syscall.Exec("/bin/sh", []string{"sh", "-c", "ulimit -c 0; kill -ABRT $$"}, []string{})
		fmt.Fprintln(p.stderr, "E", err)
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
