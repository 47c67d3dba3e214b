package sqlitestore

// selectBroken finds the streams whose chunks are not those from first to last.
const selectBroken = `SELECT s.id FROM streams s
	LEFT JOIN (SELECT stream, count(*) AS n, min(n) AS low, max(n) AS high FROM chunks GROUP BY stream) c ON c.stream = s.id
	WHERE coalesce(c.n, 0) <> s.last - s.first + 1 OR c.low <> s.first OR c.high <> s.last`

// brokenStreams is repaired by what can be read without a gap: the chunks behind the last
// one. Without any the next chunk is the one behind the last that was counted.
var brokenStreams = repair{
	invariant: 18, count: `SELECT count(*) FROM (` + selectBroken + `)`,
	what: "%d streams have other chunks than they count", explain: "readers miss chunks, or wait for some that exist",
	repairing: "keep the chunks after the last gap, and count them", do: (*tx).repairStreams,
}

func (t *tx) repairStreams() error {
	var broken []int64
	err := t.query(selectBroken, func(r row) error {
		broken = append(broken, r.ColumnInt64(0))
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range broken {
		for _, statement := range []string{
			`DELETE FROM chunks WHERE stream = +?1 AND n < (SELECT max(n) FROM chunks c WHERE stream = +?1
				AND NOT EXISTS (SELECT 1 FROM chunks before WHERE before.stream = +?1 AND before.n = c.n - 1))`,
			`UPDATE streams SET last = coalesce((SELECT max(n) FROM chunks WHERE stream = +?1), last) WHERE id = +?1`,
			`UPDATE streams SET first = coalesce((SELECT min(n) FROM chunks WHERE stream = +?1), last + 1) WHERE id = +?1`,
		} {
			if err := t.exec(statement, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// strayOf selects the rows of a table that belong to no stream.
func strayOf(table, what string) repair {
	const where = ` WHERE stream NOT IN (SELECT id FROM streams)`
	return repair{
		invariant: 16, count: `SELECT count(*) FROM ` + table + where, repair: `DELETE FROM ` + table + where,
		what: "%d " + what + " belong to none that is known", explain: leftover, repairing: "remove them",
	}
}
