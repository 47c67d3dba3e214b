package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/archive"
)

// exporting contains the flags of an export.
type exporting struct {
	filterFlags
	out string
	all bool
}

func (c *command) export() *cobra.Command {
	var e exporting
	cmd := &cobra.Command{
		Use: "export RUN… | FILTER", Short: "Write runs to a file for flowctl import", ValidArgsFunction: c.ids,
		Long: "Export writes runs as lines of JSON: records, logs and streams, as they are stored. Each line has a checksum of itself and of all\n" +
			"lines before it, so that import refuses a truncated or changed file. A run is exported with its whole ContinueAsNew chain.\n" +
			"Payloads are readable by everyone who has the file, unless a codec encrypts them. The file also contains the payloads that are\n" +
			"kept outside of the store, in the directory that $FLOWGEN_CODEC_BLOBS names. No key is necessary. A missing payload is reported\n" +
			"by its name, and the export goes on; then the exit code is 5.\n\n" +
			"Export changes nothing and keeps at most one page of a run or one payload in memory. Workers may run at the same time: an open run is written\n" +
			"in the state in which export reads it. There is no time limit unless --timeout sets one. With --server it requires the role admin.",
		Example: "  flowctl export id:order-17 --children --out order-17.jsonl\n  flowctl export --status failed --since 24h | gzip >failed.jsonl.gz",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.check(cmd, args); err != nil {
				return err
			}
			if c.hidden() {
				return &admin.InputError{What: "--payloads hide with export, which contains payloads", Fix: "omit it, or use flowctl show --payloads hide"}
			}
			r, err := e.request(args)
			if err != nil {
				return err
			}
			s, ctx, cancel, err := c.service(cmd.Context(), true)
			defer cancel()
			if err != nil {
				return err
			}
			show := c.progress("exported")
			r.Told = func(n admin.ExportCount) { show(n, false) }
			url, _, _ := c.where() // The store is open, so the URL is valid.
			r.Source, _, _ = strings.Cut(url, ":")
			var missing []string
			r.Missing = func(blob string) { missing = append(missing, blob) }
			err = c.exportTo(e.out, func(w io.Writer) error {
				n, err := s.Export(ctx, r, w)
				if err == nil {
					show(n, true)
				}
				return err
			})
			if err == nil && len(missing) > 0 {
				c.printMissing(missing)
				err = exitError{code: exitSome}
			}
			return err
		},
	}
	e.add(c, cmd)
	f := cmd.Flags()
	f.Lookup("children").Usage = "also export the runs that these runs started, at all levels"
	f.StringVar(&e.out, "out", "-", "output file, which must not exist; -: standard output")
	f.BoolVar(&e.all, "all", false, "all runs, without a filter")
	return cmd
}

// printMissing prints the names of missing blobs.
func (c *command) printMissing(blobs []string) {
	for _, name := range blobs {
		fmt.Fprintf(c.Stderr, "missing: blob %s is not in the blob store, or was altered: restore it from a backup\n", clean(name))
	}
}

// check returns an error unless the user gives either runs or a filter.
func (e *exporting) check(cmd *cobra.Command, args []string) error {
	filter := ""
	for _, one := range []string{"status", "workflow", "queue", "id", "tag", "since", "until", "parent", "root", "group", "failing", "system", "all"} {
		if cmd.Flags().Changed(one) {
			filter = one
		}
	}
	switch {
	case len(args) == 0 && filter == "":
		return &admin.InputError{What: "export: no runs are given", Fix: "name runs, or give a filter such as --workflow, or --all"}
	case len(args) > 0 && filter != "":
		return &admin.InputError{What: "runs are named, and --" + filter + " is given", Fix: "name runs, or give a filter"}
	}
	return nil
}

// request returns the export request that the flags and arguments describe.
func (e *exporting) request(args []string) (admin.ExportRequest, error) {
	f, err := e.filter()
	r := admin.ExportRequest{Runs: args, All: e.all, Tree: f.Children}
	if len(args) == 0 {
		f.Budget = 0 // The budget applies only to pages of lists.
		r.Filter = f
	}
	return r, err
}

// exportTo writes a file atomically. If it fails, the file does not exist.
func (c *command) exportTo(out string, write func(w io.Writer) error) error {
	if out == "-" {
		return write(c.Stdout)
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return &admin.InputError{What: out + " exists", Fix: "name another file with --out, or remove it"}
	}
	f, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+".part-*")
	if err != nil {
		return &admin.InputError{What: "cannot create the file: " + err.Error(), Fix: "name another one with --out"}
	}
	defer func() { _ = os.Remove(f.Name()) }() // The file exists under its temporary name.
	if err := write(f); err != nil {
		_ = f.Close() // The file is removed, so an error of Close is irrelevant.
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	if err := os.Link(f.Name(), out); err != nil { // Link does not replace an existing file, unlike Rename.
		return fmt.Errorf("write %s: %w", out, err)
	}
	return nil
}

// progress returns a function that prints the progress to standard error. On a terminal it prints
// once per second, and it always prints when last is true.
func (c *command) progress(verb string) func(n archive.Counts, last bool) {
	show := c.ticker()
	return func(n archive.Counts, last bool) {
		if c.jsonOut() { // With JSON output, print only a single value at the end.
			if last {
				_ = json.NewEncoder(c.Stderr).Encode(n)
			}
			return
		}
		show(fmt.Sprintf("%s %d runs with %d commits and %d chunks of streams", verb, n.Runs, n.Frames, n.Chunks), last)
	}
}

// ticker returns a function that prints the last text, and on a terminal also a text each second,
// in the same line.
func (c *command) ticker() func(text string, last bool) {
	f, isFile := c.Stderr.(*os.File)
	live := isFile && onTerminal(f)
	said := time.Now()
	return func(text string, last bool) {
		if !last && (!live || c.jsonOut() || time.Since(said) < time.Second) {
			return
		}
		said = time.Now()
		end := "\n"
		if live && !last {
			end = "\r"
		}
		fmt.Fprint(c.Stderr, text, end)
	}
}

// contents is the JSON output for a file that is only checked.
type contents struct{ archive.Counts }

// imported is the JSON output of an import.
type imported struct {
	archive.Counts
	New     int              `json:"new"`
	There   int              `json:"there"` // number of runs that existed before the import
	Refused []*admin.Problem `json:"refused"`
	Lost    []string         `json:"lost,omitempty"`  // names of payloads that neither the file nor the blob store has
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
			"Payloads that were kept outside of the store are written first, to the directory that $FLOWGEN_CODEC_BLOBS names.\n" +
			"It accepts only ended runs: end an open run in its own store, for example with flowctl terminate, and export it again. After the\n" +
			"import, flowctl resume-new continues it in a new run; --as-new does that for each run that has no parent and was ended by terminate,\n" +
			"because the imported log proves that the source no longer executes it. Import does not change a run that the store already has, so\n" +
			"an interrupted import can be repeated. The retention of the runs starts now. The exit code is 5 if some runs were refused or\n" +
			"payloads are missing.\n" +
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
	outside := ""
	if n.Blobs > 0 {
		outside = fmt.Sprintf(", and %d payloads outside of the store, of which %d are missing", n.Blobs, n.Missing)
	}
	_, err = fmt.Fprintf(c.Stdout, "%s is complete: %d runs with %d commits and %d chunks of streams%s, from %s at %s.\nRead it with --store export:%s\n",
		clean(name), n.Runs, n.Frames, n.Chunks, outside, clean(head.Source), head.Exported.Format("2006-01-02T15:04:05Z"), clean(name))
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
	if len(sum.Refused)+len(sum.Lost) > 0 {
		return exitError{code: exitSome}
	}
	return nil
}

// importAll imports the runs of a file. It returns the canceled runs without a parent. A canceled
// run with a parent needs no continuation, because its parent continues it.
func (c *command) importAll(ctx context.Context, f *os.File, why admin.Because, sum *imported) (canceled []string, err error) {
	show, by := c.progress("imported"), store.SessionID("flowctl "+whoami())
	err = c.local().Recorded(ctx, "import", f.Name(), why.Reason, func() error {
		return archive.Import(ctx, f, c.client.Store(), by, func(r archive.Imported) {
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
			sum.Lost = append(sum.Lost, r.Missing...)
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
	c.printMissing(sum.Lost)
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
