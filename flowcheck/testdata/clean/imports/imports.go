// Package imports reads a large file in pieces, and goes on where it was.
package imports

import (
	"context"
	"strings"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Position is how far an import is.
type Position struct {
	File string
	Row  int
	Bad  []int
}

//flow:step timeout=1m key=row
func read(ctx context.Context, file string, row int) ([]string, error) { return nil, ctx.Err() }

//flow:step
func save(ctx context.Context, rows []string) error { return ctx.Err() }

func valid(row string) bool { return strings.Count(row, ";") == 2 }

// load continues as new after a hundred pieces.
//
//flow:workflow as=Loader
func load(ctx workflow.Context, p Position) (Position, error) {
	for range 100 {
		rows, err := Read(ctx, p.File, p.Row)
		if err != nil {
			return p, err
		}
		if len(rows) == 0 {
			return p, nil
		}
		good := rows[:0]
		for i, row := range rows {
			if valid(row) {
				good = append(good, row)
			} else {
				p.Bad = append(p.Bad, p.Row+i)
			}
		}
		if err := Save(ctx, good); err != nil {
			return p, err
		}
		p.Row += len(rows)
	}
	return p, Loader.ContinueAsNew(ctx, p)
}
