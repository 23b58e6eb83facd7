// Package daemon is the composition root: it builds all parts of stoker from the settings, runs them as a server, and takes
// them down again. It is the only package that knows the drivers (drivers.go) and that wires packages together; only
// cmd/stoker imports it.
//
// [Host.Serve] is a whole server's life. The other methods of [Host] are the verbs that need no server: they return reports,
// which are data with JSON tags and a WriteText. A Host keeps no state; its methods may be called concurrently, also several
// servers at once if their state folders differ.
//
// # Order
//
// A server takes the lock of its state folder, chooses an engine for each model, binds its address, opens the local socket,
// writes the discovery file and only then loads. It goes in the reverse order, and gives the lock back last, so whoever
// gets the lock finds nothing of the one before. A start that fails on the way undoes what it did.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/auth"
	"github.com/stoker-llm/stoker/internal/buildinfo"
	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/gateway"
	"github.com/stoker-llm/stoker/internal/localapi"
	"github.com/stoker-llm/stoker/internal/supervise"
)

// Host is what the daemon needs to know of the program it is part of.
type Host struct {
	// Self is the command that runs this program, and Shim the one that runs it in the shim role.
	Self []string
	Shim []string
	// Environ is the environment that engines start from, before it is scrubbed.
	Environ []string
}

// ServeInput says what to serve.
type ServeInput struct {
	Config *config.Config
	// Models are the words of the command line; none means every model of the config.
	Models []string
	// Ephemeral takes a free loopback port and a state folder of its own, for one command's use.
	Ephemeral bool
	LogTo     io.Writer
	// Notify, if not nil, is called with the status whenever it changed, from one goroutine.
	Notify func(client.Status)
}

const (
	// failureLimit is how many answers in a row an engine may fail while it says that it is well. One can be the request's
	// fault, three from different clients hardly.
	failureLimit = 3
	// stopGrace is how long answers may go on after a stop was asked for. Longer would make a stop feel broken; shorter would
	// cut answers that were nearly done.
	stopGrace = 2 * time.Second
	// engineGrace bounds the polite part of ending the engines.
	engineGrace = 8 * time.Second
)

// server is one server's life.
type server struct {
	host Host
	in   ServeInput
	home *home
	log  *slog.Logger

	id      string
	url     string
	started time.Time
	fleet   *fleet.Fleet

	stopOnce sync.Once
	stopping chan struct{} // closed when a stop was asked for
	changed  chan struct{} // room for one: the status is new
}

// Serve runs a server until ctx ends or a stop is asked for on the local socket, which both are success. It fails when it cannot
// start, and when none of its models can be loaded. Nothing is left behind in any case.
func (h Host) Serve(ctx context.Context, in ServeInput) (err error) {
	s := &server{
		host: h, in: in, id: newInstanceID(), started: time.Now(), log: newLog(in.Config, in.LogTo),
		stopping: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	stateDir, undo, err := s.stateDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undo()) }()
	if s.home, err = takeHome(stateDir, in.Config.RunDir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.home.leave()) }()
	if err := s.build(ctx); err != nil {
		return err
	}
	return s.run(ctx)
}

// stateDir returns the state folder, and what removes it again if it is ephemeral.
func (s *server) stateDir() (string, func() error, error) {
	if !s.in.Ephemeral {
		return s.in.Config.StateDir, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "stoker")
	if err != nil {
		return "", nil, fmt.Errorf("state folder: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// build chooses engines and makes the fleet. Nothing runs afterwards.
func (s *server) build(ctx context.Context) error {
	specs, err := s.host.specs(ctx, s.in.Config, s.in.Models, s.log)
	if err != nil {
		return err
	}
	s.fleet, err = fleet.New(fleet.Options{
		Log: s.log, Models: specs, QueueLimit: s.in.Config.QueueLimit, QueueWait: s.in.Config.QueueWait, RunDir: s.home.modelDir,
		NewRestarts: func() fleet.Restarts { return supervise.DefaultRestarts() }, FailureLimit: failureLimit,
		OnChange: func(fleet.Status) { s.note() },
	})
	return err
}

// note says that the status changed.
func (s *server) note() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *server) run(ctx context.Context) error {
	public, err := s.listen()
	if err != nil {
		return err
	}
	defer public.Close()
	local, err := localapi.Listen(s.home.socket())
	if err != nil {
		return err
	}
	defer local.Close()
	if err := s.home.announce(s.discovery()); err != nil {
		return err
	}
	return s.serve(ctx, public, local)
}

// listen binds the public address and notes the effective one.
func (s *server) listen() (net.Listener, error) {
	addr := s.in.Config.Addr()
	if s.in.Ephemeral {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another --port, or 0 for any free one", addr, err)
	}
	s.url = "http://" + reachable(l.Addr())
	return l, nil
}

// reachable is an address of this machine at which a bound address answers.
func reachable(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(t.Port))
}

// serve runs both surfaces and the fleet until the end, and takes them down in order.
func (s *server) serve(ctx context.Context, public, local net.Listener) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	failed := make(chan error, 2)
	srv := s.httpServer()
	wg.Go(func() {
		if err := srv.Serve(public); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("public address: %w", err)
		}
	})
	wg.Go(func() {
		if err := localapi.Serve(life, local, s, s.log); err != nil {
			failed <- err
		}
	})
	wg.Go(func() { s.notify(life) })
	s.fleet.Start()
	err := s.await(ctx, failed)
	s.takeDown(srv)
	return err
}

// await returns when the server's life is to end, with the reason if that is a failure.
func (s *server) await(ctx context.Context, failed <-chan error) error {
	loaded := s.fleet.Loaded()
	for {
		select {
		case <-ctx.Done():
			s.RequestStop()
			return nil
		case <-s.stopping:
			return nil
		case err := <-failed:
			return err
		case <-loaded:
			loaded = nil
			if err := s.nothingLoaded(); err != nil {
				return err
			}
		}
	}
}

// nothingLoaded is an error if no model could be loaded: a server without one is of no use. With one of several it goes on, and
// /health tells.
func (s *server) nothingLoaded() error {
	var errs []error
	for _, st := range s.fleet.Status() {
		if st.State != fleet.Failed {
			return nil
		}
		err := fmt.Errorf("model %s could not be loaded: %s", st.Name, st.Cause)
		for _, l := range st.LogTail {
			err = fmt.Errorf("%w\n  | %s", err, l)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// takeDown ends what serve started: no new requests, a moment for running answers, the engines, then what is left.
func (s *server) takeDown(srv *http.Server) {
	s.RequestStop()
	s.note()
	grace, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		s.log.Info("answers are cut off by the stop", "after", stopGrace)
	}
	polite, cancelPolite := context.WithTimeout(context.Background(), engineGrace)
	defer cancelPolite()
	s.fleet.Stop(polite)
	srv.Close() // what is still open has no engine any more
}

func (s *server) httpServer() *http.Server {
	c := s.in.Config
	info := buildinfo.Get()
	return &http.Server{
		Handler: gateway.New(gateway.Options{
			Fleet: s.fleet, Auth: auth.NewKeys(c.APIKey.Reveal()), Log: s.log, Hosts: []string{c.Host}, InstanceID: s.id,
			Version: info.Version, Build: info, MaxBody: c.MaxBodyBytes, Heartbeat: c.Heartbeat, Started: s.started,
		}),
		// A client has this long for its header lines; bodies may take their time, and answers last as long as they do.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

func newLog(c *config.Config, to io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, opts))
	}
	return slog.New(slog.NewTextHandler(to, opts))
}
