package cli

import (
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
			"Payloads are readable by everyone who has the file, unless a codec encrypts them.\n\n" +
			"Export changes nothing and keeps at most one page of a run in memory. Workers may run at the same time: an open run is written\n" +
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
			return c.exportTo(e.out, func(w io.Writer) error {
				n, err := s.Export(ctx, r, w)
				if err == nil {
					show(n, true)
				}
				return err
			})
		},
	}
	e.add(c, cmd)
	f := cmd.Flags()
	f.Lookup("children").Usage = "also export the runs that these runs started, at all levels"
	f.StringVar(&e.out, "out", "-", "output file, which must not exist; -: standard output")
	f.BoolVar(&e.all, "all", false, "all runs, without a filter")
	return cmd
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
	f, isFile := c.Stderr.(*os.File)
	live := isFile && onTerminal(f)
	said := time.Now()
	return func(n archive.Counts, last bool) {
		if c.jsonOut() { // With JSON output, print only a single value at the end.
			if last {
				_ = json.NewEncoder(c.Stderr).Encode(n)
			}
			return
		}
		if !last && (!live || time.Since(said) < time.Second) {
			return
		}
		said = time.Now()
		end := "\n"
		if live && !last {
			end = "\r"
		}
		fmt.Fprintf(c.Stderr, "%s %d runs with %d commits and %d chunks of streams%s", verb, n.Runs, n.Frames, n.Chunks, end)
	}
}
