package supervise

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary plays every part: shim, child, grandchild and a supervisor that gets killed.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	if IsShim(args) {
		os.Exit(ShimMain(args))
	}
	if len(args) > 0 && args[0] == "play" {
		os.Exit(play(args[1], args[2:]))
	}
	os.Exit(m.Run())
}

func play(part string, args []string) int {
	switch part {
	case "exit":
		fmt.Fprintln(os.Stderr, "E the last words")
		code, _ := strconv.Atoi(args[0])
		return code
	case "suicide":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "stubborn": // ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
	case "polite":
		fmt.Println("ready")
	case "silent":
	case "once-more": // ends at the second SIGTERM
		c := make(chan os.Signal, 2)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		fmt.Println("first")
		<-c
		return 7
	case "noise": // megabytes without a newline, then a line
		n, _ := strconv.Atoi(args[0])
		block := strings.Repeat("x", 1<<20)
		for range n {
			fmt.Print(block)
		}
		fmt.Print("\nafter the noise\n")
	case "family": // a stubborn grandchild that holds a port
		return family(args)
	case "port":
		return holdPort()
	case "supervisor":
		return supervisor(args)
	case "outliver":
		return outliver(args[0])
	}
	time.Sleep(time.Hour)
	return 0
}

// holdPort ignores SIGTERM, listens and says where, with its pid.
func holdPort() int {
	signal.Ignore(syscall.SIGTERM)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 3
	}
	fmt.Println("port", os.Getpid(), l.Addr())
	time.Sleep(time.Hour)
	return 0
}

// family starts a grandchild that holds a port, in a session of its own if told, and then lives, or ends before it.
func family(args []string) int {
	cmd := exec.Command(os.Args[0], "play", "port")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 3
	}
	if args[0] == "own-session" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if err := cmd.Start(); err != nil {
		return 3
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	fmt.Print(line)
	if args[len(args)-1] == "end" {
		return 0
	}
	signal.Ignore(syscall.SIGTERM)
	time.Sleep(time.Hour)
	return 0
}

// supervisor supervises a family and passes its lines on, until it is killed.
func supervisor(args []string) int {
	s := spec("family", args...)
	s.OnLine = func(_ Output, line string) { fmt.Println(line) }
	p, err := Start(context.Background(), s)
	if err != nil {
		fmt.Println(err)
		return 3
	}
	fmt.Println("child", p.PID())
	time.Sleep(time.Hour)
	return 0
}

// outliver starts a child that is to outlive it, and says who its shim and the child are when the child is ready.
func outliver(log string) int {
	s := spec("polite")
	s.Outlive, s.LogFile = true, log
	p, err := Start(context.Background(), s)
	if err != nil {
		return 3
	}
	for len(p.Tail()) == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(p.shim.Process.Pid, p.PID())
	time.Sleep(time.Hour)
	return 0
}

func spec(part string, args ...string) Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{
		Name: part, Path: self, Args: append([]string{"play", part}, args...), Shim: []string{self, "shim"},
		Env: []string{"GOCOVERDIR=" + os.TempDir()},
	}
}

// lines collects a child's lines for a test.
type lines chan string

func (l lines) onLine(_ Output, line string) { l <- line }

func (l lines) await(t *testing.T, prefix string) string {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case line := <-l:
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-limit:
			t.Fatalf("no line %q within 20 s", prefix)
		}
	}
}

func start(t *testing.T, s Spec) *Process {
	t.Helper()
	p, err := Start(t.Context(), s)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := p.Stop(ctx, DefaultLadder); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return p
}

func awaitDone(t *testing.T, p *Process) *Exit {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the child did not end within 20 s")
	}
	return p.Exit()
}

// awaitGone waits until the process is dead. A zombie counts as dead.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	limit := time.Now().Add(10 * time.Second)
	for alive(pid) {
		if time.Now().After(limit) {
			t.Fatalf("process %d is still alive", pid)
		}
		time.Sleep(5 * time.Millisecond) // polls a foreign process: nothing else can be waited for
	}
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, state, ok := strings.Cut(string(b), ") ")
	return !ok || !strings.HasPrefix(state, "Z")
}

// portHolder reads "port PID ADDR".
func portHolder(t *testing.T, line string) (pid int, addr string) {
	t.Helper()
	f := strings.Fields(line)
	if len(f) != 3 {
		t.Fatalf("line %q is not: port PID ADDR", line)
	}
	pid, err := strconv.Atoi(f[1])
	if err != nil {
		t.Fatal(err)
	}
	return pid, f[2]
}

func mustBind(t *testing.T, addr string) {
	t.Helper()
	// A killed process's threads end one by one, and the last one closes the port.
	limit := time.Now().Add(10 * time.Second)
	for {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			l.Close()
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the port is still taken: %v", err)
		}
		time.Sleep(5 * time.Millisecond) // polls the system: nothing else can be waited for
	}
}
