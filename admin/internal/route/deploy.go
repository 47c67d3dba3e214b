package route

import (
	"net/http"
	"reflect"

	"github.com/flowgen/flowgen/admin"
)

// DeployAct contains the parameters of an action on a build, except the verb.
type DeployAct struct {
	To     string `json:"to,omitempty"`     // for retire only: the build that receives the pinned runs
	Reason string `json:"reason,omitempty"` // recorded in the journal
}

// The routes of deployments.
var (
	Deploys = &Route{
		Name: "listDeploys", About: "The builds of the workers, the newest first, with the open runs that need each and its blocked runs.", Method: http.MethodGet, Path: "deploys", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.Deploys](), Status: http.StatusOK,
	}
	Drained = &Route{
		Name: "getDrained", About: "Whether the workers of a build can be removed. The request reads the logs of open runs.", Method: http.MethodGet, Path: "deploys/{name}/drained", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.Drained](), Status: http.StatusOK,
	}
	Ramp = &Route{
		Name: "rampDeploys", About: "Distribute the new runs of pinned workflows over builds. Repeating the request has no further effect.", Method: http.MethodPost, Path: "deploys/ramp", Role: admin.RoleOperator, Acts: "ramp",
		In: reflect.TypeFor[admin.Ramp](), Out: reflect.TypeFor[admin.Ramped](), Status: http.StatusOK, Keyed: true, Problems: withBody,
	}
	ActOnDeploy = &Route{
		Name: "actOnDeploy", About: "Take a build out of use, or into use again. Repeating the request has no further effect.", Method: http.MethodPost, Path: "deploys/{name}/{action}", Role: admin.RoleOperator,
		Verbs: admin.DeployActions, In: reflect.TypeFor[DeployAct](), Out: reflect.TypeFor[admin.DeployActed](), Status: http.StatusOK, Keyed: true, Problems: withBody,
	}
)

var deploys = []*Route{Deploys, Drained, Ramp, ActOnDeploy}
