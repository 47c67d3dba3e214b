package route

import (
	"net/http"
	"reflect"

	"github.com/flowgen/flowgen/admin"
)

// The routes of what looks at the store as a whole.
var (
	Examine = &Route{
		Name: "examineStore", About: "How the servers of the store are set up, and what is wrong with that.", Method: http.MethodGet, Path: "doctor", Role: admin.RoleOperator,
		Out: reflect.TypeFor[admin.Exam](), Status: http.StatusOK,
	}
	Check = &Route{
		Name: "checkStore", About: "What is broken in the store, and what a repair would do. It reads everything.", Method: http.MethodGet, Path: "fsck", Role: admin.RoleOperator,
		Out: reflect.TypeFor[admin.Checked](), Status: http.StatusOK, Holds: true,
	}
	Repair = &Route{
		Name: "repairStore", About: "Repair what is broken in the store from the logs. It reads everything.", Method: http.MethodPost, Path: "repair", Role: admin.RoleAdmin, Acts: "repair",
		In: reflect.TypeFor[admin.Because](), Out: reflect.TypeFor[admin.Checked](), Status: http.StatusOK, Holds: true, Problems: withBody,
	}
)

var checks = []*Route{Examine, Check, Repair}
