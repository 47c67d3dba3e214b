package flowcheck

import "strings"

var mixedRule = rule{name: "mixed", advice: true}

// writes maps the functions of the standard library that certainly modify an external system to the
// kind of the system.
var writes = map[string]string{
	"sql.DB.Exec": "a database", "sql.DB.ExecContext": "a database", "sql.Tx.Commit": "a database", "sql.Stmt.Exec": "a database", "sql.Stmt.ExecContext": "a database",
	"http.Post": "a server", "http.PostForm": "a server", "http.Client.Post": "a server", "http.Client.PostForm": "a server",
	"os.WriteFile": "a file", "os.Create": "a file", "os.Rename": "a file", "os.Remove": "a file",
	"smtp.SendMail": "a mail server",
}

// checkMixed finds steps that write to two independent systems.
func checkMixed(p *packagePass, u *unit) {
	if u.fn == nil || p.annotated[u.fn] == nil || p.annotated[u.fn].Kind != "step" {
		return
	}
	first := ""
	for _, pr := range u.prims {
		to := writes[pr.what]
		if pr.rule != "io" || to == "" || to == first {
			continue
		}
		if first == "" {
			first = to
			continue
		}
		p.report("mixed", pr.pos, pr.end, "advice: this step writes to "+first+" and to "+to+": if "+strings.TrimPrefix(pr.what, "sql.")+" fails, a retry repeats the other: make two steps of it")
		return
	}
}
