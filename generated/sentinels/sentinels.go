// Package sentinels tells errors of other packages apart behind durable calls: those
// of package sql, which need no directive, and of package csv, which does.
//
//flow:error csv.ErrQuote
package sentinels

import (
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step retries=0
func find(ctx context.Context, what string) error {
	switch what {
	case "row":
		return fmt.Errorf("find row: %w", sql.ErrNoRows)
	case "quote":
		return &csv.ParseError{Line: 1, Err: csv.ErrQuote}
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
	}
	return fmt.Sprint(err), nil
}
