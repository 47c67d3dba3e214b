package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/archive"
)

// contents is the JSON output for a file that is only checked.
type contents struct{ archive.Counts }

// imported is the JSON output of an import.
type imported struct {
	archive.Counts
	New     int              `json:"new"`
	There   int              `json:"there"` // number of runs that existed before the import
	Refused []*admin.Problem `json:"refused"`
	AsNew   []admin.Acted    `json:"asNew,omitempty"` // new runs that continue canceled runs
}

func (c *command) importRuns() *cobra.Command {
	var into string
	var asNew bool
	var why admin.Because
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Check an exported file, and add its runs to a store", Args: cobra.ExactArgs(1),
		Long: "Import checks all lines of a file that export has written and reports a changed, missing or truncated line. The file can\n" +
			"be used as a read-only store: give --store export:FILE to any command that reads runs.\n\n" +
			"With --into, import adds the runs to a store, each completely or not at all, with their ids, logs, times, streams and failures.\n" +
			"It accepts only ended runs: end an open run in its own store, for example with flowctl terminate, and export it again. After the\n" +
			"import, flowctl resume-new continues it in a new run; --as-new does that for each run that has no parent and was ended by terminate,\n" +
			"because the imported log proves that the source no longer executes it. Import does not change a run that the store already has, so\n" +
			"an interrupted import can be repeated. The retention of the runs starts now. The exit code is 5 if some runs were refused.\n" +
			"The store does not execute imported runs.",
		Example: "  flowctl import failed.jsonl\n  flowctl show id:order-17 --store export:failed.jsonl\n  flowctl import failed.jsonl --into sqlite:archive.db",
		RunE: func(cmd *cobra.Command, args []string) error {
			if into == "" {
				if asNew {
					return &admin.InputError{What: "--as-new is given without --into", Fix: "give --into URL with the store in which the runs continue"}
				}
				if c.url != "" || c.server != "" {
					return &admin.InputError{What: "--store or --server is given instead of --into", Fix: "give the store that receives the runs with --into URL"}
				}
				if why.Reason != "" {
					return &admin.InputError{What: "--reason is given, but a check changes nothing", Fix: "give it with --into"}
				}
				return c.checkFile(args[0])
			}
			if err := admin.CheckReason("import", why.Reason, true); err != nil { // Check the reason before the store is created.
				return err
			}
			return c.importInto(cmd, args[0], into, asNew, why)
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "URL of the store to add the runs to, which is created if it does not exist")
	cmd.Flags().BoolVar(&asNew, "as-new", false, "continue the runs that were ended by terminate in their source, in new runs")
	c.why(cmd, &why.Reason)
	return cmd
}

// openFile opens a file for reading.
func openFile(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &admin.InputError{What: "cannot read the file: " + err.Error(), Fix: "name a file that flowctl export has written"}
	}
	return f, nil
}

// checkFile reads an export to its end and prints its contents.
func (c *command) checkFile(name string) error {
	f, err := openFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	head, n, err := archive.Check(f)
	if err != nil {
		return badFile(err)
	}
	if c.jsonOut() {
		return c.print(contents{n})
	}
	_, err = fmt.Fprintf(c.Stdout, "%s is complete: %d runs with %d commits and %d chunks of streams, from %s at %s.\nRead it with --store export:%s\n",
		clean(name), n.Runs, n.Frames, n.Chunks, clean(head.Source), head.Exported.Format("2006-01-02T15:04:05Z"), clean(name))
	return err
}

// badFile converts an error about the contents of a file into an error about the argument.
func badFile(err error) error {
	if bad, ok := errors.AsType[*archive.LineError](err); ok {
		return &admin.InputError{What: bad.Error(), Fix: bad.Fix()}
	}
	return err
}

func (c *command) importInto(cmd *cobra.Command, name, into string, asNew bool, why admin.Because) error {
	f, err := openFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, n, err := archive.Check(f)
	if err != nil {
		return badFile(err)
	}
	open := c.Open
	c.url, c.server = into, ""
	c.Open = func(ctx context.Context, url string) (store.Store, error) {
		st, err := open(ctx, url)
		if errors.As(err, new(*store.MissingError)) {
			return store.Open(ctx, url)
		}
		return st, err
	}
	s, ctx, cancel, err := c.service(cmd.Context(), true)
	defer cancel()
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return fmt.Errorf("read the file again: %w", err)
	}
	sum := imported{Counts: n, Refused: []*admin.Problem{}}
	ended, err := c.importAll(ctx, f, why, &sum)
	if err == nil && asNew {
		err = c.goOn(ctx, s, ended, why, &sum)
	}
	if failed := c.printImported(&sum, err == nil); err == nil { // Print the results even after an error.
		err = failed
	}
	if err != nil {
		return badFile(err)
	}
	if len(sum.Refused) > 0 {
		return exitError{code: exitSome}
	}
	return nil
}

// importAll imports the runs of a file. It returns the canceled runs without a parent. A canceled
// run with a parent needs no continuation, because its parent continues it.
func (c *command) importAll(ctx context.Context, f *os.File, why admin.Because, sum *imported) (canceled []string, err error) {
	show, by := c.progress("imported"), store.SessionID("flowctl "+whoami())
	err = c.local().Recorded(ctx, "import", f.Name(), why.Reason, func() error {
		return archive.Import(ctx, f, c.store, by, func(r archive.Imported) {
			switch {
			case r.Err != nil:
				sum.refuse(string(r.Run), r.Err)
			case r.Fresh:
				sum.New++
			default:
				sum.There++
			}
			if r.Err == nil && r.Status == event.StatusCanceled && r.Parent == "" {
				canceled = append(canceled, string(r.Run))
			}
			show(archive.Counts{Runs: sum.New}, false)
		})
	})
	return canceled, err
}

func (i *imported) refuse(run string, err error) {
	p := admin.ProblemOf(err)
	p.Run = run
	i.Refused = append(i.Refused, p)
}

// goOn continues terminated runs in new runs. An imported log contains the termination, so that
// neither store continues the old run. A new run is created with an idempotency key, so that an
// interrupted import can be repeated. goOn does not continue a run that ended by itself after a
// cancellation, because the run has cleaned up.
func (c *command) goOn(ctx context.Context, s service, canceled []string, why admin.Because, sum *imported) error {
	for _, run := range canceled {
		r, err := s.Run(ctx, run)
		if err != nil {
			return err
		}
		if r.Failure == nil || r.Failure.Code != event.CodeTerminated {
			continue
		}
		done, err := s.Act(ctx, run, admin.Action{Verb: "resume-new", Reason: why.Reason})
		switch p := admin.ProblemOf(err); {
		case err == nil:
			sum.AsNew = append(sum.AsNew, done)
		case p.Code == admin.CodeRefused:
			sum.refuse(run, err)
		default:
			return err
		}
	}
	return nil
}

// printImported prints the result of an import. If whole is false, the import ended early because
// of an error.
func (c *command) printImported(sum *imported, whole bool) error {
	if c.jsonOut() {
		return c.print(sum)
	}
	for _, p := range sum.Refused {
		fmt.Fprintln(c.Stderr, "refused: "+clean(p.Detail))
	}
	rest := ""
	if left := sum.Runs - sum.New - sum.There - len(sum.Refused); !whole {
		rest = fmt.Sprintf(", %d left: repeat the import", left)
	}
	if _, err := fmt.Fprintf(c.Stdout, "%d runs imported, %d already present, %d refused%s.\n", sum.New, sum.There, len(sum.Refused), rest); err != nil || len(sum.AsNew) == 0 {
		return err
	}
	t := newTable(c.Stdout, "RUN", "CONTINUES AS")
	for _, one := range sum.AsNew {
		t.row(one.Run, one.New)
	}
	return t.end()
}
