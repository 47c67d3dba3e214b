package sqlstep

import (
	"database/sql"

	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Steps of this package may return these errors from functions of packages that flowgen does not
// analyze. The names are those that flowgen generates for packages that it analyzes.
func init() {
	failure.RegisterSentinel("database/sql.ErrConnDone", sql.ErrConnDone)
	failure.RegisterSentinel("database/sql.ErrNoRows", sql.ErrNoRows)
	failure.RegisterSentinel("database/sql.ErrTxDone", sql.ErrTxDone)
}
