package llamacpp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// socketPathLimit is the shortest limit of the systems we run on (macOS: 104 bytes with the closing zero).
	socketPathLimit = 103
	// portTries is how many ports are tried in one start: each lost race costs one failed start of the engine.
	portTries = 5
	// Ports are drawn from below the range that Linux hands out to outgoing connections.
	portLow, portHigh = 20000, 32000
)

// address is where an engine listens: a socket file, or a port of the loopback interface.
type address struct {
	socket string
	port   int
	// key is asked of everybody who talks to a port, since any user of the machine can.
	key string
}

func (a address) network() string {
	if a.socket != "" {
		return "unix"
	}
	return "tcp"
}

func (a address) target() string {
	if a.socket != "" {
		return a.socket
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.port))
}

// host is the value of --host.
func (a address) host() string {
	if a.socket != "" {
		return a.socket
	}
	return "127.0.0.1"
}

// env is what the engine must find in its environment. The key is there and not among the arguments, which every user can
// read.
func (a address) env() []string {
	if a.key == "" {
		return nil
	}
	return []string{"LLAMA_API_KEY=" + a.key}
}

// newAddress picks where to listen: a socket in runDir if the build can and the path is short enough, else a random port.
func newAddress(fs flagSet, runDir string) (address, error) {
	socket := filepath.Join(runDir, "llama.sock")
	// The engine splits --host at commas.
	if fs.unixSocket() && len(socket) <= socketPathLimit && !strings.Contains(socket, ",") {
		return address{socket: socket}, nil
	}
	n, err := rand.Int(rand.Reader, big.NewInt(portHigh-portLow))
	if err != nil {
		return address{}, fmt.Errorf("choosing a port: %w", err)
	}
	return address{port: portLow + int(n.Int64()), key: rand.Text()}, nil
}

// clear removes what an earlier engine left at the address: llama-server does not remove its socket, and cannot start over
// one.
func (a address) clear() error {
	if a.socket == "" {
		return nil
	}
	if err := os.Remove(a.socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier engine: %w", err)
	}
	return nil
}

// taken reports whether somebody else holds the address. It is asked only after our engine is gone.
func (a address) taken() bool {
	if a.socket != "" {
		return false
	}
	l, err := net.Listen("tcp", a.target())
	if err != nil {
		return true
	}
	_ = l.Close() // only the question was of interest
	return false
}
