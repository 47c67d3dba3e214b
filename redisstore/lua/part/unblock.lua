-- unblock makes at most limit blocked runs ready that a session with the given code may try. From
-- index first on, ARGV contains the routes. A member consists of the list of sessions, a space, and
-- the run. The space sorts before all characters of a list. Therefore ' ~' sorts after all runs
-- with the same list and before longer lists.
local function unblock(first, code, limit)
  local sets = {}
  for i = first, #ARGV do
    sets[#sets + 1] = tag .. 'b:' .. ARGV[i]
  end
  if limit <= 0 or #sets == 0 or redis.call('EXISTS', unpack(sets)) == 0 then
    return
  end
  for i, set in ipairs(sets) do
    local from = '-'
    while limit > 0 do
      local member = redis.call('ZRANGE', set, from, '+', 'BYLEX', 'LIMIT', '0', '1')[1]
      if not member then
        break
      end
      local sessions = string.sub(member, 1, -28)
      if not blocked_by(sessions, code) then
        for _, one in ipairs(redis.call('ZRANGE', set, '[' .. member, '(' .. sessions .. ' ~', 'BYLEX', 'LIMIT', '0', limit)) do
          local run = string.sub(one, -26)
          local m = intact('HMGET', tag .. 'm:' .. run, 'H', 'r') or {}
          redis.call('ZREM', set, one)
          if queue_state_of(m[1]) == '4' then
            make_ready(run, m[1], ARGV[first + i - 1], m[2])
            limit = limit - 1
          end
        end
      end
      from = '(' .. sessions .. ' ~'
    end
  end
end
