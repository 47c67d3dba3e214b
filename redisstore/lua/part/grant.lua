-- granted returns what a session needs to know of a run that it owns: also if the
-- answer to the first try of a claim was lost.
local function granted(run, meta, head, route)
  return {run, head, route, string.sub(head, 1, 8) ~= nobody and redis.call('HGET', meta, 'w') or ''}
end

-- grant gives a run to a session under a new fence and returns what the session
-- needs to know of it. The caller takes the run out of its former place, and puts it
-- among those of the session. What told its senders to come later does so no more.
-- So many recoveries make it exempt, 0: none do.
-- A run of which there is nothing but a short first frame is handed over as it is: nobody
-- can have it in memory, and reading it would take the session three commands.
local function grant(run, meta, session, token, head, route, exempt)
  head = refenced(head, '2', token)
  if bit.band(string.byte(head, 51), is_closing + is_exempt) ~= 0 then
    head = with_flag(with_flag(head, is_closing, false), is_exempt, false)
  end
  if exempt > 0 and struct.unpack('>H', head, 52) >= exempt then
    head = with_flag(head, is_exempt, true)
  end
  redis.call('HSET', meta, 'H', head, 'p', session)
  local answer, n, bytes = granted(run, meta, head, route), struct.unpack('>I4I6', head, 54)
  if flagged(head, has_mail) then
    intact('HSETNX', tag .. 'a:' .. session, run, '0')
  elseif n == 1 and bytes <= 8192 then
    local log = redis.pcall('XRANGE', tag .. 'l:' .. run, '-', '+')
    if not log.err and #log == 1 then -- else who reads it finds that out
      answer[5] = log[1][2][2]
    end
  end
  return answer
end
