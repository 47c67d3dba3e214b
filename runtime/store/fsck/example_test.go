package fsck_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/sqlitestore"
)

// ExampleRepair makes a dry run and then repairs the store.
func ExampleRepair() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	st, err := sqlitestore.Open(filepath.Join(dir, "orders.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	if err := repair(context.Background(), st); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {
	//   "dry_run": true,
	//   "runs": 0,
	//   "fixes": [],
	//   "remaining": []
	// }
	// 0 findings remain
}

// repair prints the planned repairs, and executes them.
func repair(ctx context.Context, st store.Store) error {
	plan, err := fsck.Repair(ctx, st, fsck.Options{DryRun: true})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(plan); err != nil {
		return err
	}
	report, err := fsck.Repair(ctx, st, fsck.Options{By: "ops: ticket 7"})
	if err != nil {
		return err
	}
	fmt.Println(len(report.Remaining), "findings remain")
	return nil
}
