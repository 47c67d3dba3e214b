// Package record stores the executions of steps in files, independently of the store. A record
// contains the beginning of an execution and how it ended. Each worker appends to its own file with
// one write per line. A line survives a crash of the worker after the write has returned.
package record

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/step"
)

// Outcome is the end of an execution according to the step itself.
type Outcome string

// The outcomes.
const (
	// Unknown means that the execution has begun and no end is recorded.
	Unknown Outcome = ""
	// Done means that the step is about to return without an error.
	Done Outcome = "done"
	// Failed means that the step is about to return an error or to panic.
	Failed Outcome = "failed"
)

// Execution is one execution of a step.
type Execution struct {
	Worker  string
	Run     event.RunID
	Key     string // key of the step in its run
	Attempt int
	Began   time.Time
	Ended   time.Time // zero if Outcome is Unknown
	Outcome Outcome
}

// Writer writes the records of one worker. It is safe for concurrent use.
type Writer struct{ file *os.File }

// extension is the file name extension of the record files.
const extension = ".steps"

// Exists reports whether the record file of a worker exists.
func Exists(dir, worker string) bool {
	_, err := os.Stat(filepath.Join(dir, worker+extension))
	return err == nil
}

// NewWriter creates the record file of a worker in dir.
func NewWriter(dir, worker string) (*Writer, error) {
	f, err := os.OpenFile(filepath.Join(dir, worker+extension), os.O_APPEND|os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the records of %s: %w", worker, err)
	}
	return &Writer{file: f}, nil
}

// Begin records that the execution c begins now.
func (w *Writer) Begin(c step.Call) error { return w.write("began", time.Now(), c) }

// End records that the execution c ends now with outcome o.
func (w *Writer) End(c step.Call, o Outcome) error { return w.write(string(o), time.Now(), c) }

func (w *Writer) write(what string, at time.Time, c step.Call) error {
	line := fmt.Appendf(nil, "%s %d %s %d %s\n", what, at.UnixNano(), c.RunID, c.Attempt, strconv.Quote(c.Key))
	if _, err := w.file.Write(line); err != nil {
		return fmt.Errorf("record step %s of run %s: %w", c.Key, c.RunID, err)
	}
	return nil
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// Read returns the records of all workers in dir. The records of each worker are in the order of
// their beginnings.
func Read(dir string) ([]Execution, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil {
		return nil, fmt.Errorf("read the records of steps: %w", err)
	}
	var all []Execution
	for _, name := range names {
		if all, err = readFile(all, name); err != nil {
			return nil, fmt.Errorf("read the records of steps: %s: %w", name, err)
		}
	}
	return all, nil
}

// attempt identifies an execution in the file of a worker.
type attempt struct {
	run    event.RunID
	key    string
	number int
}

func readFile(all []Execution, name string) ([]Execution, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // The file is only read, so an error of Close is irrelevant.
	worker := strings.TrimSuffix(filepath.Base(name), extension)
	open := map[attempt]int{} // index of each execution in all
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		e, err := parse(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		e.Worker = worker
		a := attempt{e.Run, e.Key, e.Attempt}
		if e.Outcome == Unknown {
			open[a] = len(all)
			all = append(all, e)
			continue
		}
		i, ok := open[a]
		if !ok {
			return nil, fmt.Errorf("line %d: the step ends that has not begun", n)
		}
		delete(open, a)
		all[i].Ended, all[i].Outcome = e.Ended, e.Outcome
	}
	return all, lines.Err()
}

// parse parses a line. It sets Began if the line records a beginning, and Ended otherwise.
func parse(line string) (Execution, error) {
	fields := strings.SplitN(line, " ", 5)
	if len(fields) != 5 {
		return Execution{}, fmt.Errorf("%q has not five fields", line)
	}
	nanos, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return Execution{}, err
	}
	e := Execution{Run: event.RunID(fields[2])}
	if e.Attempt, err = strconv.Atoi(fields[3]); err != nil {
		return Execution{}, err
	}
	if e.Key, err = strconv.Unquote(fields[4]); err != nil {
		return Execution{}, fmt.Errorf("key %s: %w", fields[4], err)
	}
	at := time.Unix(0, nanos)
	switch o := Outcome(fields[0]); o {
	case "began":
		e.Began = at
	case Done, Failed:
		e.Ended, e.Outcome = at, o
	default:
		return Execution{}, fmt.Errorf("%q is neither a beginning nor an end", o)
	}
	return e, nil
}
