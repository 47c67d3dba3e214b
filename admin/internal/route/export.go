package route

import (
	"net/http"
	"reflect"

	"github.com/flowgen/flowgen/admin"
)

// Export is the route of what import reads. It changes nothing, and takes a body because no address has room for the names of many runs.
var Export = &Route{
	Name: "exportRuns", About: "Runs as lines of JSON, which flowctl import reads: records, logs and streams, as they are stored. An answer without its last line was cut off.",
	Method: http.MethodPost, Path: "export", Acts: "export", Role: admin.RoleAdmin, In: reflect.TypeFor[admin.ExportRequest](), Kind: "application/jsonl", Status: http.StatusOK, Holds: true,
	Problems: withBody,
}
