// SPDX-License-Identifier: GPL-2.0-or-later
//! The programs that serve a run: a real nginx at each source, or a server of longhaul's own where nginx can't be it
//! (`flow_server`), and a depot process at each `via`.
//!
//! Each flow has ports of its own, so that its sockets can be told from other flows' and each depot
//! process has the settings of one flow's hops. Nothing outlives the lab: servers die with the
//! thread that started them, and are stopped and waited for when dropped.

use crate::{
    error::LabError, flow_server::FlowServer, payload::Payload, sampler::HopSockets, stage::Stage,
};
use depot::{Allow, Config, IdleConnections, PeerOptions, Site, TrustFiles};
use experiment::ExperimentError;
use host::{Lack, TcpSockets};
use protocol::{Authority, DepotAddress, Form, OriginUrl, Redirect, Scheme};
use scenario::{Flow, Run, Signalling, kept};
use std::{
    fs::OpenOptions,
    io,
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use units::Rate;

const FIRST_ORIGIN_PORT: u16 = 8000;
const FIRST_DEPOT_PORT: u16 = protocol::DEPOT_PORT;
/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(10);
/// How long a server may take to end once told to.
const STOP: Duration = Duration::from_secs(5);

/// Where a flow's programs are to be found.
#[derive(Debug, Clone)]
pub struct FlowPlan {
    /// The flow.
    pub flow: Flow,
    /// What it carries; `None` for a flow without an end.
    pub payload: Option<Payload>,
    /// What the client asks for.
    pub url: String,
    /// Its hops: those of the first stream, then those of the next.
    pub hops: Vec<HopSockets>,
    origin: SocketAddr,
    depots: Vec<SocketAddr>,
    /// How programs name the origin and the depots.
    origin_authority: String,
    depot_authorities: Vec<String>,
}

impl FlowPlan {
    /// Gives the n-th flow of a run its ports: those of the flow that it comes after, or its own.
    pub fn new(
        stage: &dyn Stage,
        n: u16,
        flow: &Flow,
        payload: Option<Payload>,
        before: &[Self],
    ) -> Result<Self, LabError> {
        let earlier = before.iter().position(|plan| flow.after.as_ref() == Some(&plan.flow.name));
        let n = earlier.map_or(n, |at| before[at].number());
        let at = |node: &str, port| Ok::<_, LabError>(SocketAddr::new(stage.address(node)?, port));
        let origin = at(&flow.from, FIRST_ORIGIN_PORT + n)?;
        let depots: Vec<SocketAddr> =
            flow.via.iter().map(|node| at(node, FIRST_DEPOT_PORT + n)).collect::<Result<_, _>>()?;
        let of_stream = |stream| {
            let places = flow.hops().zip(std::iter::once(&origin).chain(&depots));
            places.map(move |(hop, local)| (stream, hop, *local))
        };
        let hops = (0..flow.streams)
            .flat_map(of_stream)
            .zip(0..)
            .map(|((stream, hop, local), index)| {
                let mut moved = stage.addresses(hop.to)?;
                let peer = moved.remove(0);
                let (node, streams) = (hop.from.to_owned(), flow.streams);
                let flow = flow.name.clone();
                Ok(HopSockets { flow, index, stream, streams, node, local, peer, moved })
            })
            .collect::<Result<_, LabError>>()?;
        let authority = |node: &str, at: SocketAddr| {
            Ok::<_, LabError>(format!("{}:{}", stage.authority(node)?, at.port()))
        };
        let origin_authority = authority(&flow.from, origin)?;
        let depot_authorities: Vec<String> = flow
            .via
            .iter()
            .zip(&depots)
            .map(|(node, at)| authority(node, *at))
            .collect::<Result<_, _>>()?;
        let asked = depot_authorities.last().filter(|_| flow.site).unwrap_or(&origin_authority);
        let url = format!("http://{asked}/{}", flow.name);
        let flow = flow.clone();
        Ok(Self { flow, payload, url, hops, origin, depots, origin_authority, depot_authorities })
    }

    /// Which flow's ports it has.
    fn number(&self) -> u16 {
        self.origin.port() - FIRST_ORIGIN_PORT
    }

    /// The bytes of the file that a stream carries; `None` for a flow without an end. The first streams have one byte more if
    /// the division leaves a rest, as in a simulation.
    pub fn part(&self, stream: u32) -> Option<Range<u64>> {
        let (bytes, streams) = (self.flow.bytes?.get(), u64::from(self.flow.streams));
        let start = |n: u64| n * (bytes / streams) + n.min(bytes % streams);
        Some(start(stream.into())..start(u64::from(stream) + 1))
    }

    /// How fast the sending program produces what one stream carries, if it has a rate.
    pub fn rate_of_stream(&self) -> Option<Rate> {
        let share = |rate: Rate| rate.bps() / u64::from(self.flow.streams);
        self.flow.app_rate.map(|rate| Rate::bits_per_second(share(rate).max(1)))
    }

    /// Whether its servers are its own.
    fn has_own_servers(&self) -> bool {
        self.flow.after.is_none()
    }

    /// The redirect that hands the client over to the depots; none for a direct flow.
    pub fn redirect(&self) -> Option<String> {
        let authority =
            |text: &String| Authority::parse(text, None).expect("nodes have plain names");
        // A scenario lists them from the sender, a route from the client.
        let depots: Vec<DepotAddress> =
            self.depot_authorities.iter().rev().map(|text| authority(text).into()).collect();
        if depots.is_empty() || self.flow.site {
            return None;
        }
        let origin = authority(&self.origin_authority);
        let origin = OriginUrl::new(Scheme::Http, origin, &format!("/{}", self.flow.name))
            .expect("flows have plain names");
        let form = match self.flow.signalling {
            Signalling::Fetch => Form::Fetch,
            Signalling::Lead => Form::Lead,
        };
        let redirect = Redirect::new(&depots, form, origin).expect("a checked scenario's");
        Some(redirect.to_string())
    }

    /// What the n-th depot is configured to be: open for this flow's neighbours only.
    fn depot_config(&self, n: usize) -> Config {
        let flow = &self.flow;
        let whole = |address: IpAddr| address.into();
        let downstream = self.hops[n + 1].peer;
        let (upstream, upstream_authority) = match n.checked_sub(1) {
            None => (self.origin, &self.origin_authority),
            Some(before) => (self.depots[before], &self.depot_authorities[before]),
        };
        let neighbours =
            [n.checked_sub(1).map(|_| upstream.ip()), flow.via.get(n + 1).map(|_| downstream)];
        let buffers = |peer, congestion| PeerOptions {
            congestion,
            sndbuf: flow.sndbuf,
            rcvbuf: flow.rcvbuf,
            idle: kept::WARM_IDLE,
            prime: kept::PRIME,
            warm: if n > 0 && peer == upstream.ip() { flow.warm } else { 0 },
            ..PeerOptions::of(whole(peer))
        };
        // The client is led through every depot, so every one must lead on to the next.
        let mut upstreams = vec![upstream_authority];
        upstreams.extend(self.depot_authorities.get(n + 1));
        let client = self.hops.last().expect("a flow has a hop").peer;
        let mut clients = vec![whole(client), whole(downstream)];
        clients.dedup();
        Config {
            id: Some(format!("{}-{}", flow.via[n], flow.name)),
            listen: vec![self.depots[n]],
            allow: Allow {
                clients,
                upstreams: upstreams
                    .iter()
                    .map(|rule| rule.parse().expect("nodes have plain names"))
                    .collect(),
                // The nodes' addresses are.
                private: true,
                ..Allow::default()
            },
            hops: vec![
                buffers(downstream, Some(flow.cc[n + 1].clone())),
                buffers(upstream.ip(), None),
            ],
            trust: TrustFiles {
                depots: neighbours.into_iter().flatten().map(whole).collect(),
                ..TrustFiles::default()
            },
            sites: self.site(n).into_iter().collect(),
            idle_connections: IdleConnections { idle: kept::IDLE, ..IdleConnections::default() },
            ..Config::default()
        }
    }
}

impl FlowPlan {
    /// The site that the n-th depot has: the one nearest the client, under its node's name.
    fn site(&self, n: usize) -> Option<Site> {
        let last = self.flow.via.len() - 1;
        if !self.flow.site || n != last {
            return None;
        }
        let via = self.depot_authorities[..last].iter().rev();
        let via = via.map(|depot| format!("\"{depot}\"")).collect::<Vec<_>>().join(", ");
        let own = &self.depot_authorities[n];
        let name = own.rsplit_once(':').map_or(own.as_str(), |(name, _)| name);
        let text = format!(
            "name = \"{name}\"\norigin = \"http://{}\"\nvia = [{via}]\n",
            self.origin_authority
        );
        Some(toml::from_str(&text).expect("nodes have plain names"))
    }
}

/// The servers of a run, up and listening. They end together when this is dropped.
pub struct Servers {
    programs: Mutex<Vec<Server>>,
    /// Where their files are, and the program that is a depot.
    folder: PathBuf,
    longhaul: PathBuf,
    /// Those of flows that nginx can't send.
    own: Vec<FlowServer>,
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.programs().iter().for_each(Server::tell_to_end);
        self.own.clear();
    }
}

impl Servers {
    /// Starts them and waits until they listen. `folder` is for their files and logs; `longhaul`
    /// is the program that is a depot.
    pub fn start(
        stage: &dyn Stage,
        run: &Run,
        plans: &[FlowPlan],
        folder: &Path,
        longhaul: &Path,
    ) -> Result<Self, LabError> {
        let (mut programs, mut flow_servers) = (Vec::new(), Vec::new());
        let (own, stock): (Vec<&FlowPlan>, _) =
            plans.iter().partition(|plan| is_sent_by_own_server(plan, plans));
        let is_here = |plan: &&&FlowPlan| plan.has_own_servers() && stage.has(&plan.flow.from);
        for plan in own.iter().filter(is_here) {
            let same: Vec<_> =
                own.iter().filter(|other| other.origin == plan.origin).copied().collect();
            let server = FlowServer::start(stage, &plan.flow.from, plan.origin, &same)?;
            flow_servers.push(server);
        }
        for node in run.nodes.iter().filter(|node| stage.has(&node.name)) {
            let of_node: Vec<&FlowPlan> =
                stock.iter().filter(|plan| plan.flow.from == node.name).copied().collect();
            if !of_node.is_empty() {
                programs.push(start_nginx(stage, &node.name, &of_node, folder)?);
            }
        }
        for plan in plans.iter().filter(|plan| plan.has_own_servers()) {
            for n in (0..plan.flow.via.len()).filter(|&n| stage.has(&plan.flow.via[n])) {
                programs.push(start_depot(stage, plan, n, folder, longhaul)?);
            }
        }
        for server in &mut programs {
            server.wait_until_listening(stage)?;
        }
        let (folder, longhaul) = (folder.to_owned(), longhaul.to_owned());
        Ok(Self { programs: Mutex::new(programs), folder, longhaul, own: flow_servers })
    }

    /// Kills a node's depots at once.
    pub fn kill_depots(&self, node: &str) {
        let mut programs = self.programs();
        for depot in programs.iter_mut().filter(|it| it.depot.is_some() && it.node == node) {
            // One that has ended by itself is as good as killed.
            let _ = depot.child.kill();
            let _ = depot.child.wait();
        }
    }

    /// Starts a node's depots again, with the settings that they had; those that run end before.
    ///
    /// # Errors
    /// One does not come up.
    pub fn restart_depots(
        &self,
        stage: &dyn Stage,
        plans: &[FlowPlan],
        node: &str,
    ) -> Result<(), LabError> {
        self.kill_depots(node);
        let mut programs = self.programs();
        for program in programs.iter_mut().filter(|it| it.node == node) {
            let Some((flow, n)) = &program.depot else { continue };
            let plan = plans.iter().find(|plan| plan.flow.name == *flow);
            let plan = plan.expect("a depot is a flow's");
            let mut again = start_depot(stage, plan, *n, &self.folder, &self.longhaul)?;
            again.wait_until_listening(stage)?;
            *program = again;
        }
        Ok(())
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn programs(&self) -> MutexGuard<'_, Vec<Server>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether longhaul's own server sends a flow: nginx can't send it, or one that has the same connections.
fn is_sent_by_own_server(plan: &FlowPlan, plans: &[FlowPlan]) -> bool {
    plans.iter().any(|other| other.origin == plan.origin && !can_be_stock(&other.flow))
}

/// Whether nginx can send a flow.
pub fn can_be_stock(flow: &Flow) -> bool {
    has_stock_client(flow) && flow.app_rate.is_none()
}

/// Whether curl, wget or aria2 receives a flow.
pub fn has_stock_client(flow: &Flow) -> bool {
    flow.bytes.is_some() && flow.streams == 1
}

struct Server {
    name: String,
    node: String,
    /// The flow that it is a depot of, and which one of its depots.
    depot: Option<(String, usize)>,
    listens: Vec<SocketAddr>,
    log: PathBuf,
    child: Child,
}

impl Server {
    fn start(
        mut command: Command,
        name: String,
        node: &str,
        listens: Vec<SocketAddr>,
        folder: &Path,
    ) -> Result<Self, LabError> {
        let log = folder.join(format!("{name}.log"));
        // Of a program that starts again, both are kept.
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.map_err(|e| LabError::file("write", &log, e))?;
        let out = file.try_clone().map_err(|e| LabError::file("write", &log, e))?;
        let child =
            command.stdin(Stdio::null()).stdout(out).stderr(file).spawn().map_err(|e| {
                missing_program(command.get_program().to_string_lossy().as_ref(), e)
            })?;
        Ok(Self { name, node: node.to_owned(), depot: None, listens, log, child })
    }

    fn wait_until_listening(&mut self, stage: &dyn Stage) -> Result<(), LabError> {
        let failed = |e| LabError::system("list a node's sockets", e);
        let mut view = TcpSockets::open_in(stage.namespace(&self.node)?).map_err(failed)?;
        let deadline = Instant::now() + START;
        loop {
            let mut up = true;
            for address in &self.listens {
                up &= view.listens(*address).map_err(failed)?;
            }
            if up {
                return Ok(());
            }
            let ended =
                self.child.try_wait().map_err(|e| LabError::system("wait for a server", e))?;
            if ended.is_some() || Instant::now() > deadline {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let reason = match ended {
                    Some(status) => format!("it ended with {status}; it said: {}", said.trim()),
                    None => format!("it did not listen within 10 s; it said: {}", said.trim()),
                };
                return Err(LabError::Server { name: self.name.clone(), reason });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Server {
    fn tell_to_end(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // It may have ended by itself: then the error is expected.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tell_to_end();
        let deadline = Instant::now() + STOP;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An error of starting a program, which says how to get it where it is missing.
pub fn missing_program(program: &str, error: io::Error) -> LabError {
    if error.kind() != io::ErrorKind::NotFound {
        return LabError::system("start a program", error);
    }
    let package = package_of(program);
    LabError::lacks(Lack::new(
        format_args!("{program} is not installed"),
        format_args!("apt-get install {package}"),
    ))
}

/// The Debian package of a program that runs use.
pub fn package_of(program: &str) -> &str {
    match program {
        "nginx" => "nginx-light",
        "aria2c" => "aria2",
        program => program,
    }
}

fn start_nginx(
    stage: &dyn Stage,
    node: &str,
    plans: &[&FlowPlan],
    folder: &Path,
) -> Result<Server, LabError> {
    let name = format!("nginx-{node}");
    let prefix = folder.join(&name);
    std::fs::create_dir_all(&prefix).map_err(|e| LabError::file("make", &prefix, e))?;
    let config = prefix.join("nginx.conf");
    let text = nginx_config(plans)?;
    std::fs::write(&config, text).map_err(|e| LabError::file("write", &config, e))?;
    let mut command = stage.command(node, "nginx")?;
    command.arg("-p").arg(&prefix).arg("-c").arg(&config).arg("-e").arg("stderr");
    let own = plans.iter().filter(|plan| plan.has_own_servers());
    let listens = own.map(|plan| plan.origin).collect();
    Server::start(command, name, node, listens, folder)
}

/// One process in the foreground, so that none is left behind; a server for each flow, which
/// serves the file to depots and direct clients and redirects the others, as deploy/nginx does.
/// Relative paths count from nginx's prefix.
fn nginx_config(plans: &[&FlowPlan]) -> Result<String, LabError> {
    let mut text = String::from(
        "daemon off;\nmaster_process off;\nuser root;\npid nginx.pid;\nerror_log stderr warn;\n\
         events { worker_connections 256; }\nhttp {\n  access_log off;\n  sendfile on;\n  \
         default_type application/octet-stream;\n",
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        text += &format!("  {kind}_temp_path {kind};\n");
    }
    for server in plans.iter().filter(|plan| plan.has_own_servers()) {
        text += &format!("  server {{\n    listen {};\n", server.origin);
        for plan in plans.iter().filter(|plan| plan.origin == server.origin) {
            text += &format!("    location = /{} {{\n", plan.flow.name);
            if let Some(location) = plan.redirect() {
                // A depot identifies itself in Via; all other clients are redirected to the depots.
                text += &format!("      if ($http_via = \"\") {{ return 302 \"{location}\"; }}\n");
            }
            let payload = plan.payload.as_ref().expect("what nginx sends has an end");
            text += &format!("      alias {};\n    }}\n", quoted(&payload.path)?);
        }
        text += "  }\n";
    }
    Ok(text + "}\n")
}

/// A path as nginx's configuration takes it, which has no way to write a dollar sign.
fn quoted(path: &Path) -> Result<String, LabError> {
    let text = path.to_str().filter(|text| !text.contains(['$', '\n']));
    let text = text.ok_or_else(|| {
        let path = path.display();
        let text = format!("nginx can't be given the path {path}: use another --out");
        LabError::from(ExperimentError::Unsupported(text))
    })?;
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn start_depot(
    stage: &dyn Stage,
    plan: &FlowPlan,
    n: usize,
    folder: &Path,
    longhaul: &Path,
) -> Result<Server, LabError> {
    let node = &plan.flow.via[n];
    let name = format!("depot-{node}-{}", plan.flow.name);
    let config = folder.join(format!("{name}.toml"));
    let text = toml::to_string(&plan.depot_config(n)).expect("a configuration is plain data");
    std::fs::write(&config, text).map_err(|e| LabError::file("write", &config, e))?;
    let mut command = stage.command(node, &longhaul.to_string_lossy())?;
    command.arg("depot").arg("--config").arg(&config);
    let mut depot = Server::start(command, name, node, vec![plan.depots[n]], folder)?;
    depot.depot = Some((plan.flow.name.clone(), n));
    Ok(depot)
}
