// Package sqlstep makes a step have its effect on a SQL database exactly once.
//
// A completed step may be executed again if its worker dies before the completion is recorded. [Do]
// does the work of the step in one transaction together with a record of it in the same database,
// under the step's idempotency key. A repeated execution finds the record, and gets the result that
// was returned the first time.
//
// The databases are PostgreSQL and SQLite, with any driver for database/sql. The records are in a
// table that is created if it is missing:
//
//	CREATE TABLE flowgen_steps (
//		idempotency_key varchar(32) PRIMARY KEY,
//		step            text NOT NULL,
//		result          text,
//		created         bigint NOT NULL -- seconds since 1970, by the database's clock
//	)
package sqlstep
