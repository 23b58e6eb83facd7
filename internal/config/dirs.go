package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
)

// sunPath is the longest path of a unix socket that every system we run on takes: 104 bytes with the final zero on macOS,
// 108 on Linux.
const sunPath = 103

// folder is a standard place of the system.
type folder struct {
	// xdg is the variable of the XDG base directory specification, and below the folder in the home that it stands for.
	xdg, below string
	// mac is the folder in the home on macOS.
	mac string
}

var (
	configFolder = folder{"XDG_CONFIG_HOME", ".config", "Library/Application Support"}
	stateFolder  = folder{"XDG_STATE_HOME", ".local/state", "Library/Application Support"}
	dataFolder   = folder{"XDG_DATA_HOME", ".local/share", "Library/Application Support"}
	cacheFolder  = folder{"XDG_CACHE_HOME", ".cache", "Library/Caches"}
)

var errNoHome = errors.New("no home folder is known: set HOME, or this setting")

// in returns stoker's folder in f. As the specification demands, an XDG variable that is empty or not absolute is ignored.
func (f folder) in(h Host) (string, error) {
	if h.GOOS != "darwin" {
		if dir, ok := h.LookupEnv(f.xdg); ok && filepath.IsAbs(dir) {
			return filepath.Join(dir, "stoker"), nil
		}
	}
	if h.HomeDir == "" {
		return "", errNoHome
	}
	if h.GOOS == "darwin" {
		return filepath.Join(h.HomeDir, f.mac, "stoker"), nil
	}
	return filepath.Join(h.HomeDir, f.below, "stoker"), nil
}

// doc is f for people.
func (f folder) doc(rest string) string {
	return fmt.Sprintf("$%s/stoker%s or ~/%s/stoker%s; on macOS ~/%s/stoker%s", f.xdg, rest, f.below, rest, f.mac, rest)
}

func defaultConfigFile(h Host) (string, error) {
	dir, err := configFolder.in(h)
	if err != nil {
		return "", nil //nolint:nilerr // without a home there is no default file, and that is fine
	}
	return filepath.Join(dir, "config.yaml"), nil
}

func defaultStateDir(h Host) (string, error) {
	dir, err := stateFolder.in(h)
	if err == nil && h.GOOS == "darwin" {
		// macOS has one folder where Linux has two.
		dir = filepath.Join(dir, "state")
	}
	return dir, err
}

func defaultDataDir(h Host) (string, error) { return dataFolder.in(h) }

func defaultCacheDir(h Host) (string, error) { return cacheFolder.in(h) }

// defaultRunDir is short, since sockets lie in it: the folder that the login session made for this, else one in /tmp (not
// in macOS's own temporary folder, whose name alone takes half of a socket's path).
func defaultRunDir(h Host) (string, error) {
	if dir, ok := h.LookupEnv("XDG_RUNTIME_DIR"); ok && h.GOOS != "darwin" && filepath.IsAbs(dir) {
		if dir = filepath.Join(dir, "stoker"); socketsFit(dir) {
			return dir, nil
		}
	}
	return "/tmp/stoker-" + strconv.Itoa(h.UID), nil
}

func socketsFit(runDir string) bool { return len(runDir) <= sunPath-SocketRoom }
