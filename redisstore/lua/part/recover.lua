-- recover takes up to limit runs from a session on behalf of session by, and removes the session
-- once it owns no run. The first call ends the session: its heartbeats are refused. The fences
-- change here, not at the next claim. It returns the number of runs taken. Keys of the session that
-- were overwritten are deleted with it; only a repair finds the runs that were listed in them.
local function recover(session, by, reason, now, limit)
  local state, owned = tag .. 'z:' .. session, tag .. 'o:' .. session
  intact('HSET', state, 'r', '1')
  local owner = intact('HGET', state, 'i') or ''
  local taken = 0
  for _, run in ipairs(intact('SRANDMEMBER', owned, limit) or {}) do
    local meta = tag .. 'm:' .. run
    local m = intact('HMGET', meta, 'H', 'p', 'c', 'r') or {}
    local header = m[1]
    if queue_state_of(header) == '2' and m[2] == session then
      leave_owner(run, session)
      trail(run, reason, by, owner, now, header)
      if not flagged(header, is_exempt) then
        local recoveries = struct.unpack('>H', header, 52)
        header = string.sub(header, 1, 51) .. struct.pack('>H', math.min(recoveries + 1, 65535)) .. string.sub(header, 54)
      end
      make_ready(run, refenced(header, '1', nobody), m[3], m[4])
    else -- the session does not own this run
      redis.call('SREM', owned, run)
      intact('HDEL', tag .. 'a:' .. session, run)
    end
    taken = taken + 1
  end
  if (intact('SCARD', owned) or 0) == 0 then
    redis.call('DEL', state, owned, tag .. 'a:' .. session)
    redis.call('ZREM', tag .. 'e', session)
  end
  return taken
end
