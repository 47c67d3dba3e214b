package sqlitestore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

func init() { roles["views"] = playSaver }

// playSaver repeatedly saves 40 views with its own name as a prefix. It prints a line for each
// acknowledgment.
func playSaver(args []string) error {
	return withStore(args, func(ctx context.Context, s *sqlitestore.Store) error {
		for n := 0; ; n++ {
			name := fmt.Sprintf("%s %d", args[1], n%40)
			if err := store.SaveView(ctx, s, store.View{Name: name, Filter: fmt.Sprint("id:", n)}); err != nil {
				return err
			}
			fmt.Printf("%s=%d\n", name, n)
		}
	})
}

// TestOPS2_EveryAcknowledgedViewSurvivesKill kills two processes that save views in a file which a
// third process has open. It proves that the file contains each acknowledged view, or a later view
// with the same name.
func TestOPS2_EveryAcknowledgedViewSurvivesKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	if all, err := store.Views(testContext(t), s); err != nil || len(all) != 0 {
		t.Fatalf("got %v, %v", all, err)
	}
	a, b := startChild(t, "views", path, "a"), startChild(t, "views", path, "b")
	var printed []string
	for range 150 {
		printed = append(printed, a.line(), b.line())
	}
	for _, c := range []*child{a, b} {
		check(t, c.cmd.Process.Kill())
		printed = append(printed, c.rest()...)
		c.kill()
	}
	acknowledged := map[string]int{}
	for _, line := range printed {
		name, n, _ := strings.Cut(line, "=")
		round, err := strconv.Atoi(n)
		check(t, err)
		acknowledged[name] = max(acknowledged[name], round)
	}
	for _, s := range []*sqlitestore.Store{s, openStore(t, path, nil)} {
		all, err := store.Views(testContext(t), s)
		check(t, err)
		kept := map[string]int{}
		for _, v := range all {
			kept[v.Name], err = strconv.Atoi(strings.TrimPrefix(v.Filter, "id:"))
			check(t, err)
		}
		if len(kept) != 80 || len(acknowledged) != 80 {
			t.Errorf("%d views are kept, %d were acknowledged, want 80", len(kept), len(acknowledged))
		}
		for name, n := range acknowledged {
			if kept[name] < n {
				t.Errorf("view %s: got round %d, want %d or later", name, kept[name], n)
			}
		}
		verify(t, s)
	}
}
