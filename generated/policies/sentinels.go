//flow:error csv.ErrQuote
package policies

import (
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/generated/policies/failures"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// find returns errors of package sql, which need no directive, of package csv, which has one above, and of a package
// with directives.
//
//flow:step retries=0
func find(ctx context.Context, what string) error {
	switch what {
	case "row":
		return fmt.Errorf("find row: %w", sql.ErrNoRows)
	case "quote":
		return &csv.ParseError{Line: 1, Err: csv.ErrQuote}
	case "gone":
		return failures.ErrGone
	}
	return nil
}

//flow:workflow
func look(ctx workflow.Context, what string) (string, error) {
	err := Find(ctx, what)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "no rows", nil
	case errors.Is(err, csv.ErrQuote):
		return "quote", nil
	case errors.Is(err, failures.ErrGone):
		return "gone", nil
	}
	return fmt.Sprint(err), nil
}
