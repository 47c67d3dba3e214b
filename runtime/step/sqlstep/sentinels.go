package sqlstep

import (
	"database/sql"

	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Steps of this package may return them from functions of packages that flowgen does
// not see; the names are those which it writes where it sees them.
func init() {
	failure.RegisterSentinel("database/sql.ErrConnDone", sql.ErrConnDone)
	failure.RegisterSentinel("database/sql.ErrNoRows", sql.ErrNoRows)
	failure.RegisterSentinel("database/sql.ErrTxDone", sql.ErrTxDone)
}
