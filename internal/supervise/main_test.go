package supervise

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	code := m.Run()
	if left := leftovers(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "left behind by the tests:", left)
		code = 1
	}
	os.Exit(code)
}

// leftovers names what should be gone after all tests: child processes, dead or alive, and goroutines of this package.
func leftovers() string {
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		return fmt.Sprintf("a child process (wait: %d, %v)", pid, err)
	}
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "internal/supervise.") && !strings.Contains(stack, "TestMain") {
			return stack
		}
	}
	return ""
}

func play(part string, args []string) int {
	switch part {
	case "exit":
		fmt.Fprintln(os.Stderr, "E the last words")
		code, _ := strconv.Atoi(args[0])
		return code
	case "suicide":
		syscall.Kill(os.Getpid(), syscall.SIGKILL) //nolint:errcheck // it cannot fail and return
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
	case "clan": // a family one generation further down
		return clan(args)
	case "orphans": // leaves dead grandchildren to whoever takes them
		return orphans(args)
	case "count": // counts SIGTERMs and stays
		return countTerms()
	case "pipes": // says how many pipes it was given, and whether they block
		return pipes()
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

// clan starts a family as its child and stays, so that the port is held two generations below.
func clan(args []string) int {
	cmd := exec.Command(os.Args[0], append([]string{"play", "family"}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 3
	}
	time.Sleep(time.Hour)
	return 0
}

// orphans starts children that each leave a child behind, which then ends.
func orphans(args []string) int {
	if len(args) > 0 { // a child of the first
		if err := exec.Command(os.Args[0], "play", "exit", "0").Start(); err != nil {
			return 3
		}
		return 0
	}
	for range 3 {
		if err := exec.Command(os.Args[0], "play", "orphans", "child").Run(); err != nil {
			return 3
		}
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return 0
}

func countTerms() int {
	c := make(chan os.Signal, 10)
	signal.Notify(c, syscall.SIGTERM)
	fmt.Println("ready")
	for range c {
		fmt.Println("term")
	}
	return 0
}

// pipes prints what it inherited: the number of open pipes, and the descriptors among its first three that do not block.
func pipes() int {
	n := 0
	for fd := range 64 {
		if to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	loose := 0
	for fd := range 3 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			loose++
		}
	}
	fmt.Println("pipes", n, "loose", loose)
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
	eventually(t, fmt.Sprintf("process %d is dead", pid), func() bool { return !alive(pid) })
}

// eventually polls what happens in foreign processes: nothing tells when it does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within 10 s: %s", what)
		}
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
	eventually(t, "port "+addr+" can be bound", func() bool {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return false
		}
		l.Close()
		return true
	})
}
