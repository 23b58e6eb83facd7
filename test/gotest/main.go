// Command gotest runs `go test` with the arguments it is given and closes with
// what a person wants to know: what failed with its output, what was skipped and
// why, and one line of counts ("412 passed, 0 failed, 3 skipped").
//
//	go run ./test/gotest ./...
//
// It ends with status 1 if anything failed, did not build or did not run.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// run starts go test and reads its events while it goes on, so that each package
// is reported when it ends.
func run(args []string, stdout, stderr io.Writer) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s := newSummary(stdout)
	readErr := s.read(out)
	waitErr := cmd.Wait()
	s.close()
	switch {
	case readErr != nil:
		return readErr
	case s.failed > 0:
		return errors.New("tests failed")
	case waitErr != nil:
		return fmt.Errorf("go test: %w", waitErr)
	case s.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}
