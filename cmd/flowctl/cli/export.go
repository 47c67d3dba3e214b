package cli

import (
	"context"
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

// exporting are the flags of an export.
type exporting struct {
	filterFlags
	out       string
	all, tree bool
}

func (c *command) export() *cobra.Command {
	var e exporting
	cmd := &cobra.Command{
		Use: "export RUN… | FILTER", Short: "Write runs into a file that import reads", ValidArgsFunction: c.ids,
		Long: "Export writes runs as lines of JSON: records, logs and streams, as they are stored. Each line has a sum of itself and of all\n" +
			"before it, so that a file which was cut off or changed is refused. A run comes with the runs of its chain, which it has\n" +
			"continued or has continued as. Payloads are readable for whoever has the file, unless a codec keeps them secret.\n\n" +
			"It holds no more of a run in memory than a page, and changes nothing. Workers may work meanwhile: an open run is written as it\n" +
			"is when its turn comes. No time limit holds unless --timeout gives one.",
		Example: "  flowctl export id:order-17 --children --out order-17.jsonl\n  flowctl export --status failed --since 24h | gzip >failed.jsonl.gz",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.check(cmd, args); err != nil {
				return err
			}
			if c.hidden() {
				return &admin.InputError{What: "--payloads hide, and an export carries payloads", Fix: "leave it out, or use flowctl show --payloads hide"}
			}
			if _, err := c.theStore("export"); err != nil {
				return err
			}
			s, ctx, cancel, err := c.service(cmd.Context(), true)
			defer cancel()
			if err != nil {
				return err
			}
			return c.exportTo(e.out, func(w io.Writer) error { return c.exportRuns(ctx, s, w, &e, args) })
		},
	}
	e.add(c, cmd)
	f := cmd.Flags()
	f.Lookup("children").Usage = "also the runs that they have started, and those below"
	f.StringVar(&e.out, "out", "-", "file, which must not exist; -: standard output")
	f.BoolVar(&e.all, "all", false, "all runs, without a filter")
	return cmd
}

// check says whether runs are named, or a filter is given.
func (e *exporting) check(cmd *cobra.Command, args []string) error {
	e.tree = e.Children
	filter := ""
	for _, one := range []string{"status", "workflow", "queue", "id", "tag", "since", "until", "parent", "root", "group", "troubled", "system", "all"} {
		if cmd.Flags().Changed(one) {
			filter = one
		}
	}
	switch {
	case len(args) == 0 && filter == "":
		return &admin.InputError{What: "export of which runs?", Fix: "name runs, or give a filter such as --workflow; --all means all"}
	case len(args) > 0 && filter != "":
		return &admin.InputError{What: "runs are named, and --" + filter + " is given", Fix: "name runs, or give a filter"}
	}
	return nil
}

// exportTo writes a file: it is there as a whole, or not at all.
func (c *command) exportTo(out string, write func(w io.Writer) error) error {
	if out == "-" {
		return write(c.Stdout)
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return &admin.InputError{What: out + " exists", Fix: "name another file by --out, or remove it"}
	}
	f, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+".part-*")
	if err != nil {
		return &admin.InputError{What: "the file cannot be made: " + err.Error(), Fix: "name another one by --out"}
	}
	defer func() { _ = os.Remove(f.Name()) }() // what it is called if it was not finished
	if err := write(f); err != nil {
		_ = f.Close() // it is removed
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	if err := os.Link(f.Name(), out); err != nil { // unlike Rename it replaces nothing
		return fmt.Errorf("write %s: %w", out, err)
	}
	return nil
}

func (c *command) exportRuns(ctx context.Context, s admin.Service, w io.Writer, e *exporting, args []string) error {
	url, _, err := c.where()
	if err != nil {
		return err
	}
	source, _, _ := strings.Cut(url, ":")
	to, err := archive.NewWriter(w, archive.Head{Source: source, Exported: c.store.Clock().Now()})
	if err != nil {
		return err
	}
	show := c.progress("exported")
	x := archive.NewExporter(c.store, to, func(n archive.Counts) { show(n, false) })
	if len(args) > 0 {
		err = c.exportNamed(ctx, s, x, args, e.tree)
	} else {
		err = c.exportFiltered(ctx, s, x, e)
	}
	if err == nil {
		err = to.Close()
	}
	if err != nil {
		return err
	}
	show(to.Counts(), true)
	return nil
}

// exportNamed exports runs by their names.
func (c *command) exportNamed(ctx context.Context, s admin.Service, x *archive.Exporter, args []string, tree bool) error {
	for _, ref := range args {
		r, err := s.Run(ctx, ref)
		if err != nil {
			return err
		}
		if err := c.exportTree(ctx, x, event.RunID(r.ID), tree); err != nil {
			return err
		}
	}
	return nil
}

// exportTree exports a run, and with tree those below it.
func (c *command) exportTree(ctx context.Context, x *archive.Exporter, run event.RunID, tree bool) error {
	if !tree {
		return x.Run(ctx, run)
	}
	lister, ok := store.As[store.Lister](c.store)
	if !ok {
		return admin.NewProblem(admin.CodeUnsupported, "this kind of store cannot list runs", "leave --children out, and name them")
	}
	for one, err := range archive.Below(ctx, lister, run) {
		if err == nil {
			err = x.Run(ctx, one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exportFiltered exports the runs of a filter, the oldest first. Those that are purged meanwhile are left out.
func (c *command) exportFiltered(ctx context.Context, s admin.Service, x *archive.Exporter, e *exporting) error {
	f, err := e.filter()
	if err != nil {
		return err
	}
	f.Oldest, f.Limit, f.Children = true, 1000, f.Children || f.Parent != "" || f.Root != ""
	for {
		page, err := s.Runs(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			err := c.exportTree(ctx, x, event.RunID(page.Runs[i].ID), e.tree)
			if err != nil && !errors.Is(err, store.ErrRunNotFound) {
				return err
			}
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			return nil
		}
	}
}

// progress returns what says how far it is: at the terminal once a second, and everywhere at the end.
func (c *command) progress(verb string) func(n archive.Counts, last bool) {
	f, isFile := c.Stderr.(*os.File)
	live := isFile && onTerminal(f)
	said := time.Now()
	return func(n archive.Counts, last bool) {
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
